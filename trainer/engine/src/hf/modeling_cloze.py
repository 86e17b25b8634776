"""Encoders of `cloze` that `transformers` has no class for.

A BERT encoder (post-norm) with these options of `config.json`:

- `relative_attention_kind`: a trained bias of attention for each head and bucket of the distance between query and key,
  shared by all layers. `"cocolm"` has the buckets of COCO-LM, `"t5"` those of T5, `"none"` has no bias.
- `embedding_size`: width of the embedding tables; a matrix projects them if it differs from `hidden_size`.
- `lm_head_transform`: whether the prediction head has a dense layer, a gelu and a norm before the word table.
- `detection_head`: `"linear"` or `"dense_gelu"`. Positive scores mean that a token was replaced.
- `classifier_activation`: `"tanh"` or `"gelu"`, in the head over the first token of a row.

    AutoModelForMaskedLM.from_pretrained(FOLDER, trust_remote_code=True)
"""

import functools
import math

import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.activations import ACT2FN
from transformers.modeling_outputs import (
    BaseModelOutput,
    MaskedLMOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)


class ClozeConfig(PretrainedConfig):
    model_type = "cloze"

    def __init__(
        self,
        vocab_size=30522,
        embedding_size=None,
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
        hidden_act="gelu",
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
        max_position_embeddings=512,
        type_vocab_size=2,
        initializer_range=0.02,
        layer_norm_eps=1e-12,
        relative_attention_kind="none",
        relative_attention_num_buckets=32,
        relative_attention_max_distance=128,
        lm_head_transform=True,
        detection_head=None,
        classifier_activation="tanh",
        pad_token_id=0,
        **kwargs,
    ):
        super().__init__(pad_token_id=pad_token_id, **kwargs)
        self.vocab_size = vocab_size
        self.embedding_size = embedding_size or hidden_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.intermediate_size = intermediate_size
        self.hidden_act = hidden_act
        self.hidden_dropout_prob = hidden_dropout_prob
        self.attention_probs_dropout_prob = attention_probs_dropout_prob
        self.max_position_embeddings = max_position_embeddings
        self.type_vocab_size = type_vocab_size
        self.initializer_range = initializer_range
        self.layer_norm_eps = layer_norm_eps
        self.relative_attention_kind = relative_attention_kind
        self.relative_attention_num_buckets = relative_attention_num_buckets
        self.relative_attention_max_distance = relative_attention_max_distance
        self.lm_head_transform = lm_head_transform
        self.detection_head = detection_head
        self.classifier_activation = classifier_activation


def relative_bucket(distance, kind, num_buckets, max_distance):
    """Bucket of a distance, key minus query."""
    half = num_buckets // 2
    near = half // 2
    n = abs(distance)
    if n < near:
        magnitude = n
    else:
        growth = math.log(n / near)
        if kind == "cocolm":
            steps = math.ceil(growth / math.log((max_distance - 1) / near) * (half - 1 - near))
        else:
            steps = math.floor(growth / math.log(max_distance / near) * (half - near))
        magnitude = min(near + steps, half - 1)
    if kind == "cocolm":
        return half - 1 + (magnitude if distance >= 0 else -magnitude)
    return magnitude + (half if distance > 0 else 0)


@functools.lru_cache(maxsize=8)
def buckets_by_distance(length, kind, num_buckets, max_distance):
    """Buckets of all distances between `length` positions. Numbers, because a tensor has a device and a mode of autograd."""
    return [relative_bucket(distance, kind, num_buckets, max_distance) for distance in range(1 - length, length)]


def relative_buckets(length, device, *form):
    """Buckets of all pairs of positions, `[query, key]`."""
    by_distance = torch.tensor(buckets_by_distance(length, *form), device=device)
    positions = torch.arange(length, device=device)
    return by_distance[positions[None, :] - positions[:, None] + length - 1]


class ClozeEmbeddings(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config.embedding_size
        self.word_embeddings = nn.Embedding(config.vocab_size, width)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, input_ids, token_type_ids, inputs_embeds):
        words = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        positions = self.position_embeddings.weight[: words.shape[1]]
        if token_type_ids is None:
            places = positions + self.token_type_embeddings.weight[0]
        else:
            places = positions + self.token_type_embeddings(token_type_ids)
        return self.dropout(self.LayerNorm(words + places))


class ClozeSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.num_attention_heads
        self.dropout = config.attention_probs_dropout_prob
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, hidden, bias):
        rows, length, width = hidden.shape
        query, key, value = (
            project(hidden).view(rows, length, self.heads, width // self.heads).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        dropout = self.dropout if self.training else 0.0
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=bias, dropout_p=dropout)
        return mixed.transpose(1, 2).reshape(rows, length, width)


class ClozeOutput(nn.Module):
    """Dense layer, dropout, sum with the input of the block, norm."""

    def __init__(self, config, width):
        super().__init__()
        self.dense = nn.Linear(width, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, made, hidden):
        return self.LayerNorm(hidden + self.dropout(self.dense(made)))


class ClozeAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self = ClozeSelfAttention(config)
        self.output = ClozeOutput(config, config.hidden_size)

    def forward(self, hidden, bias):
        return self.output(self.self(hidden, bias), hidden)


class ClozeIntermediate(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self.activation = ACT2FN[config.hidden_act]

    def forward(self, hidden):
        return self.activation(self.dense(hidden))


class ClozeLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention = ClozeAttention(config)
        self.intermediate = ClozeIntermediate(config)
        self.output = ClozeOutput(config, config.intermediate_size)

    def forward(self, hidden, bias):
        hidden = self.attention(hidden, bias)
        return self.output(self.intermediate(hidden), hidden)


class ClozeEncoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layer = nn.ModuleList(ClozeLayer(config) for _ in range(config.num_hidden_layers))

    def forward(self, hidden, bias):
        states = [hidden]
        for layer in self.layer:
            states.append(layer(states[-1], bias))
        return tuple(states)


class ClozePreTrainedModel(PreTrainedModel):
    config_class = ClozeConfig
    base_model_prefix = "cloze"
    _supports_sdpa = True


class ClozeModel(ClozePreTrainedModel):
    _keys_to_ignore_on_load_unexpected = [r"^lm_head\.", r"^detection\.", r"^classifier\.", r"^qa_outputs\."]

    def __init__(self, config):
        super().__init__(config)
        self.embeddings = ClozeEmbeddings(config)
        if config.embedding_size != config.hidden_size:
            self.embeddings_project = nn.Linear(config.embedding_size, config.hidden_size)
        if config.relative_attention_kind != "none":
            self.relative_attention_bias = nn.Embedding(
                config.relative_attention_num_buckets, config.num_attention_heads
            )
        self.encoder = ClozeEncoder(config)
        self.post_init()

    def get_input_embeddings(self):
        return self.embeddings.word_embeddings

    def set_input_embeddings(self, value):
        self.embeddings.word_embeddings = value

    def attention_bias(self, length, attention_mask, dtype):
        """Sum of the bias of relative positions and of the mask, or None without both."""
        config = self.config
        bias = None
        if config.relative_attention_kind != "none":
            table = self.relative_attention_bias.weight
            buckets = relative_buckets(
                length,
                table.device,
                config.relative_attention_kind,
                config.relative_attention_num_buckets,
                config.relative_attention_max_distance,
            )
            bias = table[buckets].permute(2, 0, 1).unsqueeze(0).to(dtype)
        if attention_mask is not None:
            hidden = (attention_mask == 0)[:, None, None, :]
            mask = torch.zeros(hidden.shape, dtype=dtype, device=hidden.device)
            mask = mask.masked_fill(hidden, torch.finfo(dtype).min)
            bias = mask if bias is None else bias + mask
        return bias

    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        token_type_ids=None,
        inputs_embeds=None,
        output_hidden_states=None,
        return_dict=None,
        **kwargs,
    ):
        hidden = self.embeddings(input_ids, token_type_ids, inputs_embeds)
        if self.config.embedding_size != self.config.hidden_size:
            hidden = self.embeddings_project(hidden)
        states = self.encoder(hidden, self.attention_bias(hidden.shape[1], attention_mask, hidden.dtype))
        kept = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        output = BaseModelOutput(last_hidden_state=states[-1], hidden_states=states if kept else None)
        return output.to_tuple() if return_dict is False else output


class ClozeLMHead(nn.Module):
    """Scores all ids with the word table, after a transform if the model has one."""

    def __init__(self, config):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.has_transform = config.lm_head_transform
        if self.has_transform:
            self.dense = nn.Linear(config.hidden_size, config.embedding_size)
            self.activation = ACT2FN[config.hidden_act]
            self.layer_norm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)

    def forward(self, hidden, words):
        if self.has_transform:
            hidden = self.layer_norm(self.activation(self.dense(hidden)))
        return nn.functional.linear(hidden, words, self.bias)


class ClozeDetectionHead(nn.Module):
    """Scores tokens: positive if they were replaced."""

    def __init__(self, config):
        super().__init__()
        self.has_dense = config.detection_head == "dense_gelu"
        if self.has_dense:
            self.dense = nn.Linear(config.hidden_size, config.hidden_size)
            self.activation = ACT2FN[config.hidden_act]
        self.out_proj = nn.Linear(config.hidden_size, 1)

    def forward(self, hidden):
        if self.has_dense:
            hidden = self.activation(self.dense(hidden))
        return self.out_proj(hidden).squeeze(-1)


class ClozeForMaskedLM(ClozePreTrainedModel):
    _keys_to_ignore_on_load_unexpected = [r"^detection\."]

    def __init__(self, config):
        super().__init__(config)
        self.cloze = ClozeModel(config)
        self.lm_head = ClozeLMHead(config)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, labels=None, return_dict=None, **kwargs):
        output = self.cloze(input_ids, attention_mask, token_type_ids, **kwargs)
        words = self.cloze.embeddings.word_embeddings.weight
        logits = self.lm_head(output.last_hidden_state, words)
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        output = MaskedLMOutput(loss=loss, logits=logits, hidden_states=output.hidden_states)
        return output.to_tuple() if return_dict is False else output


class ClozeForPreTraining(ClozePreTrainedModel):
    """Detector of replaced tokens. Labels: 1 if replaced, 0 if original, -100 if neither."""

    _keys_to_ignore_on_load_unexpected = [r"^lm_head\."]

    def __init__(self, config):
        super().__init__(config)
        self.cloze = ClozeModel(config)
        self.detection = ClozeDetectionHead(config)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, labels=None, return_dict=None, **kwargs):
        output = self.cloze(input_ids, attention_mask, token_type_ids, **kwargs)
        logits = self.detection(output.last_hidden_state)
        loss = None
        if labels is not None:
            kept = labels >= 0
            loss = nn.functional.binary_cross_entropy_with_logits(logits[kept], labels[kept].to(logits.dtype))
        output = TokenClassifierOutput(loss=loss, logits=logits, hidden_states=output.hidden_states)
        return output.to_tuple() if return_dict is False else output


class ClozeClassificationHead(nn.Module):
    """Scores a row by its first token."""

    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = ACT2FN[config.classifier_activation]
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.out_proj = nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, hidden):
        return self.out_proj(self.dropout(self.activation(self.dense(hidden[:, 0]))))


class ClozeForSequenceClassification(ClozePreTrainedModel):
    """Classes of rows, or a score if there is one output."""

    def __init__(self, config):
        super().__init__(config)
        self.cloze = ClozeModel(config)
        self.classifier = ClozeClassificationHead(config)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, labels=None, return_dict=None, **kwargs):
        output = self.cloze(input_ids, attention_mask, token_type_ids, **kwargs)
        logits = self.classifier(output.last_hidden_state)
        loss = None
        if labels is not None and self.config.num_labels == 1:
            loss = nn.functional.mse_loss(logits.squeeze(-1), labels.to(logits.dtype))
        elif labels is not None:
            loss = nn.functional.cross_entropy(logits, labels)
        output = SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=output.hidden_states)
        return output.to_tuple() if return_dict is False else output


class ClozeForTokenClassification(ClozePreTrainedModel):
    """Classes of tokens. Labels are -100 where there is none."""

    def __init__(self, config):
        super().__init__(config)
        self.cloze = ClozeModel(config)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, labels=None, return_dict=None, **kwargs):
        output = self.cloze(input_ids, attention_mask, token_type_ids, **kwargs)
        logits = self.classifier(self.dropout(output.last_hidden_state))
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        output = TokenClassifierOutput(loss=loss, logits=logits, hidden_states=output.hidden_states)
        return output.to_tuple() if return_dict is False else output


class ClozeForQuestionAnswering(ClozePreTrainedModel):
    """First and last token of an answer."""

    def __init__(self, config):
        super().__init__(config)
        self.cloze = ClozeModel(config)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()

    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        token_type_ids=None,
        start_positions=None,
        end_positions=None,
        return_dict=None,
        **kwargs,
    ):
        output = self.cloze(input_ids, attention_mask, token_type_ids, **kwargs)
        start, end = self.qa_outputs(output.last_hidden_state).unbind(-1)
        loss = None
        if start_positions is not None and end_positions is not None:
            losses = (nn.functional.cross_entropy(*it) for it in ((start, start_positions), (end, end_positions)))
            loss = sum(losses) / 2
        output = QuestionAnsweringModelOutput(
            loss=loss, start_logits=start, end_logits=end, hidden_states=output.hidden_states
        )
        return output.to_tuple() if return_dict is False else output
