"""Ultralytics: the device's name and the default device."""

from __future__ import annotations

from .rewrite import line

PATCHES = {
    "ultralytics.utils.torch_utils": (
        line("parse_device", 'for backend in ("npu", "xpu"):', 'for backend in ("npu", "xpu", "mpsx"):'),
        line("parse_device", 'if device.type in {"npu", "xpu"}:', 'if device.type in {"npu", "xpu", "mpsx"}:'),
        line("select_device", "device = parse_device(device)", 'device = parse_device(device) or "mpsx"'),
        line("select_device", 'if device.startswith(("npu", "xpu")):', 'if device.startswith(("npu", "xpu", "mpsx")):'),
        line("select_device", 'device[4:].split(",")', 'device[len(device_type) + 1 :].split(",")'),
        line("select_device", '"cuda", "npu", "xpu"}', '"cuda", "npu", "xpu", "mpsx"}'),
    ),
}
