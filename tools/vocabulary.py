"""Names and phrases that this project has retired, and what to write instead.

`tools/lint.py vocabulary` rejects the identifiers. The phrases are not checked yet, because some lines still have one.
Bare words with legitimate uses (`line`, `run`, `row`, `dot product`) are not listed.
"""

from __future__ import annotations

import re

# Identifiers, as whole words, and their replacements. In quotes, adopts_memory is a public key of mpsx.driver().
IDENTIFIERS = {
    # Matrix multiplication and convolution
    r"k?FewProducts": "kSmallGemmMacs", r"ProductEnd|MatmulFinish": "epilogue", r"TileShare": "BlockLoader",
    r"matmul_join": "split_k_reduce", r"split_of": "choose_split_k", r"wide_a|wide_b": "vectorize_a",
    r"alpha_whole": "alpha_int", r"ConvDivisor": "FastDivmod", r"conv_fold": "col2im", r"kLargeTile": "kTile128",
    # Attention
    r"log_sums": "logsumexp", r"of_value": "grad_v", r"kOfQuery": "kGradQ", r"score_of": "masked_score",
    r"Attended": "SdpaResult",
    # Rows and reductions
    r"NoExtra": "NoAux", r"ExpBelow": "ExpSubMax", r"Itself": "Identity", r"kAhead": "kUnroll",
    r"lane_above": "shuffle_down", r"exp_sum": "online_softmax", r"TableLine": "a plain loop",
    # Runtime
    r"(?<!\")adopts_memory": "uses_process_memory", r"cuda_trouble": "cuda_unavailable_reason",
    r"threads_to_fill": "target_resident_threads", r"exit_order": "shutdown", r"mps_name|other_name": "mps_alias",
    r"allocate_near_cpu": "allocate_host_resident", r"spread_gradient": "scatter_grad",
    # Operators and the MSL compiler
    r"deliver": "return_or_copy", r"check_apart": "assert_no_partial_overlap", r"movable": "is_bitwise_copyable",
    r"orders_index": "should_sort_index", r"lay_over": "apply_overlays", r"moved_behind": "lines_to_sink",
}  # fmt: skip

# Phrases in comments, docstrings, and messages.
PHRASES = {
    r"\b(?:of|as|by) which\b": "split the sentence",
    r"\b(?:mend(?:s|ed|ing)?|refus(?:e|es|ed|al|als|ing))\b": "fix; reject",
    r"\b(?:thread|pack|launch|kernel|copy|barrier|step|time|pass|number|warning) an? (?:element|operator|row|call|lane|"
    r"column|matrix|type|dtype|process|batch|channel|launch|kernel|file|group|threadgroup)\b": "one … per …",
    r"\bonce an? (?:operator|kernel|process|call|file|type)\b": "once per …",
    r"\b(?:in|with) the words of\b|\btorch's words\b|\bin (?:its|few|their) words\b": "the message of",
    r"\bneighbours?\b|\bneighbouring\b": "adjacent, contiguous",
    r"\b(?:tensors?|memory|files?|kernels?|data|code|values?|elements?|buffers?|folders?) (?:lies?|lay) ": "starts at",
    r"\bmatrix products?\b|\bproducts? of matrices\b": "matrix multiplication, matmul, GEMM",
    r"\bfrom elsewhere\b|\bsomebody else's\b|\bother people's\b": "name the owner",
}
OPENERS = re.compile(r'(?://|#|"""|\*)\s*(?:Of|Those|The same)\s')
