//! Settings of HTTP clients in the environment: those with an effect, against a server with TLS, and those that are refused.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use remote_store::{StoreOptions, open_with};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::options::options;
use testkit::servers::s3::DATE;

/// Certificate that signed that of the server. No system trusts it.
const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\n\
MIIBZDCCAQmgAwIBAgIBATAKBggqhkjOPQQDAjAYMRYwFAYDVQQDDA1jbG96ZSB0\n\
ZXN0IENBMCAXDTIwMDEwMTAwMDAwMFoYDzIxMjAwMTAxMDAwMDAwWjAYMRYwFAYD\n\
VQQDDA1jbG96ZSB0ZXN0IENBMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEHoEU\n\
Jsd/0tLRj4RngbiqD7PdCBXUVcNco6LnqeJrzfpoGUlpeu7fojIjPecEdikH2tIP\n\
glP8Pd29FKt+iHmFhaNCMEAwDwYDVR0TAQH/BAUwAwEB/zAOBgNVHQ8BAf8EBAMC\n\
AgQwHQYDVR0OBBYEFE4aDw1wXnQNbI1ggd80KWbq86BIMAoGCCqGSM49BAMCA0kA\n\
MEYCIQCme/uCyqVY8JwxHjtu6QY54RuLTgM8WU/P+tIIYhc7RAIhAIzyBGBVzXuN\n\
6Hk9AJJ0h4J68hAqeDPi5f4JyaJy3qo8\n\
-----END CERTIFICATE-----";

/// Certificate of the server, for `localhost`, until the year 2120.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\n\
MIIBmzCCAUGgAwIBAgIBAjAKBggqhkjOPQQDAjAYMRYwFAYDVQQDDA1jbG96ZSB0\n\
ZXN0IENBMCAXDTIwMDEwMTAwMDAwMFoYDzIxMjAwMTAxMDAwMDAwWjAUMRIwEAYD\n\
VQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASAUnlnSrQb\n\
tYD/Asg0HiB2HzzvE5Oxeh3ttsl3ef/uKHVjJWEmuHxr34gm6vyzKOCzs3nXfXnZ\n\
PVWsJqxr7HOFo34wfDAJBgNVHRMEAjAAMBoGA1UdEQQTMBGCCWxvY2FsaG9zdIcE\n\
fwAAATATBgNVHSUEDDAKBggrBgEFBQcDATAfBgNVHSMEGDAWgBROGg8NcF50DWyN\n\
YIHfNClm6vOgSDAdBgNVHQ4EFgQUm9/FVj0OppXJ8pNsMkBJvMA+82QwCgYIKoZI\n\
zj0EAwIDSAAwRQIgZlRSjizpoaAHnnHPEwcJcif/gQjXDJfpFcAjILaV4UQCIQCH\n\
gqJm6MgFmn1hZBC4gTVRTT3H+cGyTZc3BD+76Jo3ig==\n\
-----END CERTIFICATE-----";

/// Key of the server. It was made for this test.
const KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgao+2OO+pd0xvesXt\n\
8E80gMEEmEeY6zutIghF1BrKwBChRANCAASAUnlnSrQbtYD/Asg0HiB2HzzvE5Ox\n\
eh3ttsl3ef/uKHVjJWEmuHxr34gm6vyzKOCzs3nXfXnZPVWsJqxr7HOF\n\
-----END PRIVATE KEY-----";

/// Starts a server that answers each request with one byte; returns its port.
fn serve() -> u16 {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).expect("PEM");
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).expect("PEM");
    let config = config.expect("versions").with_no_client_auth().with_single_cert(vec![certificate], key);
    let config = Arc::new(config.expect("a pair"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let accept = move || {
        for stream in listener.incoming().flatten() {
            let config = Arc::clone(&config);
            thread::Builder::new().spawn(move || answer_all(stream, config)).expect("started");
        }
    };
    thread::Builder::new().spawn(accept).expect("started");
    port
}

fn answer_all(stream: TcpStream, config: Arc<ServerConfig>) {
    let mut stream = StreamOwned::new(ServerConnection::new(config).expect("a connection"), stream);
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\netag: \"tag\"\r\nlast-modified: {DATE}\r\n\r\nx");
    let mut request = Vec::new();
    let mut byte = [0];
    // A client that refuses the certificate closes the connection.
    while stream.read(&mut byte).is_ok_and(|count| count == 1) {
        request.push(byte[0]);
        if request.ends_with(b"\r\n\r\n") {
            request.clear();
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn with(options: StoreOptions, variables: &[(&str, &str)]) -> StoreOptions {
    let more = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    StoreOptions { environment: options.environment.into_iter().chain(more).collect(), ..options }
}

#[test]
fn certificates_are_trusted_as_the_environment_says() {
    let endpoint = format!("https://localhost:{}", serve());
    let get = |variables: &[(&str, &str)]| {
        let options = with(options(""), &[("AWS_ENDPOINT_URL", &endpoint), ("AWS_ALLOW_HTTP", "false")]);
        open_with("s3://bucket/runs", &with(options, variables)).expect("opened").get("a")
    };
    let authority = ("AWS_PROXY_CA_CERTIFICATE", AUTHORITY);
    for variables in [
        &[authority][..],
        &[authority, ("AWS_DISABLE_SYSTEM_CERTIFICATES", "true")],
        &[authority, ("AWS_DISABLE_SYSTEM_CERTIFICATES", "off")],
        &[("AWS_ALLOW_INVALID_CERTIFICATES", "true")],
        &[("AWS_ALLOW_INVALID_CERTIFICATES", "1"), ("AWS_CONNECT_TIMEOUT", "10s")],
    ] {
        assert_eq!(get(variables).unwrap_or_else(|error| panic!("{variables:?}: {error}")), b"x");
    }
    for variables in [
        &[][..],
        &[("AWS_ALLOW_INVALID_CERTIFICATES", "No")],
        // The certificate of the server is none that signs.
        &[("AWS_PROXY_CA_CERTIFICATE", CERTIFICATE), ("AWS_DISABLE_SYSTEM_CERTIFICATES", "Yes")],
    ] {
        let error = get(variables).expect_err("not trusted");
        assert!(error.to_string().contains("certificate"), "{variables:?}: {error}");
    }
}

#[test]
fn settings_without_an_effect_are_refused() {
    let cases = [
        ("s3://bucket/a", "AWS_HTTP2_ONLY", "true", "AWS_HTTP2_ONLY is not supported; unset it"),
        ("s3://bucket/a", "AWS_TIMEOUT", "30s", "Supported after AWS_: ALLOW_HTTP, "),
        ("s3://bucket/a", "AWS_POOL_MAX_IDLE_PER_HOST", "1", "not supported"),
        ("s3://bucket/a", "AWS_RANDOMIZE_ADDRESSES", "false", "not supported"),
        ("s3://bucket/a", "AWS_HTTP1_ONLY", "false", "only HTTP/1 is supported"),
        ("s3://bucket/a", "AWS_ALLOW_HTTP", "planted", "AWS_ALLOW_HTTP is neither `true` nor `false`"),
        ("s3://bucket/a", "AWS_CONNECT_TIMEOUT", "planted", "such as `10s`"),
        ("s3://bucket/a", "AWS_CONNECT_TIMEOUT", "0s", "such as `10s`"),
        ("s3://bucket/a", "AWS_DISABLE_SYSTEM_CERTIFICATES", "true", "set AWS_PROXY_CA_CERTIFICATE too"),
        ("gs://bucket/a", "GOOGLE_READ_TIMEOUT", "30s", "GOOGLE_READ_TIMEOUT is not supported"),
        ("az://bucket/a", "AZURE_USER_AGENT", "planted", "AZURE_USER_AGENT is not supported"),
    ];
    let account = ("AZURE_STORAGE_ACCOUNT_NAME", "account");
    for (location, name, value, expected) in cases {
        let error = open_with(location, &with(options("localhost"), &[account, (name, value)])).expect_err(name);
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}");
        assert!(text.starts_with(location) && text.contains(expected) && !text.contains("planted"), "{text}");
    }
    // Settings of another service, and variables of other programs.
    let others = [("AZURE_TIMEOUT", "30s"), ("AWS_PAGER", "less"), ("AWS_TIMEOUT", ""), ("AWS_HTTP1_ONLY", "true")];
    open_with("s3://bucket/a", &with(options("localhost"), &others)).expect("opened");
}
