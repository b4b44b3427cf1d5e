"""Networks from the transformers package. Their weights are random, so nothing is downloaded."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

Batch = dict[str, torch.Tensor]
SMALL_WORDS = 60


def _sizes(small: bool) -> dict[str, int]:
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    return sizes if small else {}


def bert(small: bool) -> nn.Module:
    """Create BERT-base with a masked language model head. `small` omits dropout, so that devices can be compared."""
    from transformers import BertConfig, BertForMaskedLM

    quiet = {"vocab_size": SMALL_WORDS, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return BertForMaskedLM(BertConfig(**_sizes(small), **(quiet if small else {})))


def gpt2(small: bool) -> nn.Module:
    """Create GPT-2 with 124 million parameters."""
    from transformers import GPT2Config, GPT2LMHeadModel

    quiet = {"vocab_size": SMALL_WORDS, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64,
             "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}  # fmt: skip
    network = GPT2LMHeadModel(GPT2Config(**(quiet if small else {}), bos_token_id=0, eos_token_id=0))
    network.loss_type = "ForCausalLM"  # avoids a warning that would cause a graph break
    return network


def llama(small: bool) -> nn.Module:
    """Create a Llama with grouped-query attention: 16 query heads and 4 KV heads, or 4 and 2 if `small`."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = _sizes(small) or {"hidden_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 16,
                              "intermediate_size": 2816}  # fmt: skip
    words = SMALL_WORDS if small else 8192
    return LlamaForCausalLM(LlamaConfig(**sizes, num_key_value_heads=2 if small else 4, vocab_size=words))


def vit(small: bool) -> nn.Module:
    """Create ViT-base with 16x16 patches."""
    from transformers import ViTConfig, ViTForImageClassification

    quiet = {"image_size": 32, "patch_size": 8} if small else {}
    return ViTForImageClassification(ViTConfig(**_sizes(small), **quiet, num_labels=10))


def whisper(small: bool) -> nn.Module:
    """Create the encoder of Whisper-tiny. If `small`, it has fewer layers and a smaller width."""
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    sizes = {"d_model": 32, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 64,
             "num_mel_bins": 16, "max_source_positions": 25} if small else {}  # fmt: skip
    return WhisperEncoder(WhisperConfig(**sizes, dropout=0.0))


def text(small: bool) -> Batch:
    """Create 8 sequences of 128 words, or 3 of 12 words if `small`. Mask the second half of one of them as padding."""
    count, length, words = (3, 12, SMALL_WORDS) if small else (8, 128, 8192)
    mask = torch.ones(count, length, dtype=torch.long)
    mask[1, length // 2 :] = 0
    return {"input_ids": torch.randint(1, words, (count, length)), "attention_mask": mask}


def images(small: bool) -> Batch:
    """Create 8 labeled images of 224 x 224, or 3 of 32 x 32 if `small`."""
    count, side = (3, 32) if small else (8, 224)
    return {"pixel_values": torch.randn(count, 3, side, side), "y": torch.randint(10, (count,))}


def audio(small: bool) -> Batch:
    """Create spectrograms of 30 seconds of audio, or of half a second if `small`."""
    return {"input_features": torch.randn(2, 16, 50) if small else torch.randn(2, 80, 3000)}


def inputs(batch: Batch) -> Batch:
    """Return the network's inputs without the labels."""
    return {k: v for k, v in batch.items() if k != "y"}


def masked_words(network: nn.Module, batch: Batch) -> torch.Tensor:
    """Return the cross-entropy of predicting every third word."""
    logits, words = network(**batch).logits, batch["input_ids"]
    return F.cross_entropy(logits[:, ::3].flatten(0, 1), words[:, ::3].flatten())


def next_word(network: nn.Module, batch: Batch) -> torch.Tensor:
    """Return the cross-entropy of predicting each next word, as computed by the network."""
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    return network(**batch, labels=labels).loss


def classify(network: nn.Module, batch: Batch) -> torch.Tensor:
    """Return the cross-entropy of classifying images."""
    return F.cross_entropy(network(**inputs(batch)).logits, batch["y"])


def mean_square(network: nn.Module, batch: Batch) -> torch.Tensor:
    """Return the mean square of the last hidden states. It serves as the loss of a network without a head."""
    return network(**batch).last_hidden_state.square().mean()


def predict(network: nn.Module, batch: Batch) -> torch.Tensor:
    """Return the network's logits."""
    return network(**inputs(batch)).logits


def hidden(network: nn.Module, batch: Batch) -> torch.Tensor:
    """Return the encoder's last hidden states."""
    return network(**batch).last_hidden_state
