// Input rows of the model with coloured tokens. A changed token shows its original in a tooltip (pointer, or keyboard
// focus, which the arrow keys move), or next to it if the checkbox is set.

const TOKEN_KINDS = {
  masked: "masked",
  random: "replaced by a random token",
  kept: "unchanged, and predicted",
  special: "special",
  padding: "padding",
  plain: "plain",
};

class Rows {
  constructor(session) {
    Object.assign(this, { session, count: 4 });
    this.show = make("button", {
      type: "button",
      class: "strong",
      id: "show-rows",
      text: "show rows of the newest step",
      on: { click: () => this.fetch() },
    });
    const many = make(
      "select",
      {
        id: "rows-count",
        "aria-label": "number of rows",
        on: {
          change: (event) => {
            this.count = Number(event.target.value);
          },
        },
      },
      ...[1, 2, 4, 8, 16].map((n) =>
        make("option", { value: n, text: n === 1 ? "one row" : `${n} rows`, selected: n === 4 }),
      ),
    );
    this.originals = make("input", {
      type: "checkbox",
      id: "originals",
      on: {
        change: () => {
          this.body.classList.toggle("with-originals", this.originals.checked);
        },
      },
    });
    const legend = ["masked", "random", "kept", "special", "padding"].map((kind) =>
      make(
        "li",
        {},
        make("span", { class: `token ${kind}`, text: kind }),
        make("span", { class: "faint", text: TOKEN_KINDS[kind] }),
      ),
    );
    this.words = make("p", { class: "empty", role: "status", text: "No rows are loaded yet." });
    this.body = make("div", { class: "rows" });
    find("rows-body").append(
      make(
        "div",
        { class: "toolbar" },
        this.show,
        many,
        make("label", { class: "field" }, this.originals, make("span", { text: "show all originals" })),
      ),
      make("ul", { class: "token-legend" }, ...legend),
      this.words,
      this.body,
    );
  }

  async fetch() {
    say(this.words, "loading…");
    this.show.disabled = true;
    const answer = await this.session.get(`/rows?count=${this.count}`);
    this.show.disabled = false;
    if (!answer.ok) {
      say(this.words, answer.words);
      return;
    }
    const { step, first_row, rows } = answer.json;
    say(this.words, `Step ${count(step)}, from row ${count(first_row)}.`);
    this.body.replaceChildren(...(rows ?? []).map((row) => this.row(row)));
    if ((rows ?? []).length === 0) say(this.words, "There is no row to show.");
  }

  row(row) {
    const documents = (row.documents ?? []).map((text) => make("li", {}, make("bdi", { text })));
    return make(
      "article",
      { class: "row" },
      make(
        "h3",
        {},
        make("span", { text: `row ${count(row.row)}` }),
        row.source ? make("bdi", { class: "pill", text: row.source }) : null,
      ),
      make("p", { class: "faint" }, make("bdi", { text: row.place ?? "" })),
      make("ul", { class: "documents" }, ...documents),
      ...(row.views ?? []).map((one) => this.view(one)),
    );
  }

  view(one) {
    const tokens = (one.tokens ?? []).map((token) => this.token(token));
    const changed = tokens.filter((token) => token.dataset.original !== undefined);
    const box = make("div", {
      class: "tokens",
      role: "group",
      "aria-label": printable(`${one.name}, ${changed.length} tokens to predict`),
    });
    tokens.forEach((token) => box.append(token, " "));
    if (changed.length > 0) {
      changed[0].tabIndex = 0;
      box.addEventListener("keydown", (event) => rove(event, changed));
    }
    return make(
      "div",
      { class: "view" },
      make("h4", {}, make("bdi", { text: one.name }), make("span", { class: "faint", text: one.note ?? "" })),
      box,
    );
  }

  token(token) {
    const kind = Object.hasOwn(TOKEN_KINDS, token.kind) ? token.kind : "plain";
    const original = token.original ?? (kind === "kept" ? token.text : null);
    const span = make("span", { class: `token ${kind}` }, make("bdi", { text: token.text }));
    if (original === null || kind === "plain") return span;
    span.append(make("bdi", { class: "original", text: original }));
    span.dataset.original = original;
    span.tabIndex = -1;
    span.setAttribute("role", "img");
    span.setAttribute("aria-label", printable(`${token.text}, ${kind}, was ${original}`));
    const show = () => show_tip(span, [`${TOKEN_KINDS[kind]}: was “${printable(original)}”`]);
    for (const event of ["pointerenter", "focus"]) span.addEventListener(event, show);
    for (const event of ["pointerleave", "blur"]) span.addEventListener(event, hide_tip);
    return span;
  }
}

/** Roving tab index: one tab stop for all tokens of a view; the arrow keys move within it. */
function rove(event, tokens) {
  const here = tokens.indexOf(document.activeElement);
  const there = {
    ArrowRight: here + 1,
    ArrowDown: here + 1,
    ArrowLeft: here - 1,
    ArrowUp: here - 1,
    Home: 0,
    End: tokens.length - 1,
  }[event.key];
  if (event.key === "Escape") hide_tip();
  if (there === undefined || here < 0) return;
  event.preventDefault();
  const next = tokens[Math.min(Math.max(there, 0), tokens.length - 1)];
  tokens[here].tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}
