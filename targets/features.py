"""Instruction-set features by LLVM's names: those that compiled code may use, and what systems call them."""

from __future__ import annotations

from typing import Final

_X86_64: Final = (
    "adx aes amx-bf16 amx-fp16 amx-int8 amx-tile avx avx2 avx512bf16 avx512bitalg avx512bw avx512cd avx512dq "
    "avx512f avx512fp16 avx512ifma avx512vbmi avx512vbmi2 avx512vl avx512vnni avx512vpopcntdq avxifma "
    "avxneconvert avxvnni avxvnniint16 avxvnniint8 bmi bmi2 cx16 f16c fma fma4 gfni lzcnt movbe pclmul popcnt "
    "sha sse3 sse4.1 sse4.2 ssse3 tbm vaes vpclmulqdq xop"
)
_AARCH64: Final = (
    "aes bf16 complxnum crc dotprod fp16fml fullfp16 i8mm jsconv lse neon rcpc rdm sha2 sha3 sme sme2 sve sve2"
)

RELEVANT: Final = {"x86_64": frozenset(_X86_64.split()), "aarch64": frozenset(_AARCH64.split())}
"""By architecture: what decides whether compiled code runs."""

X86_64_FLAGS: Final = {
    "abm": "lzcnt",
    "amx_bf16": "amx-bf16",
    "amx_fp16": "amx-fp16",
    "amx_int8": "amx-int8",
    "amx_tile": "amx-tile",
    "avx512_bf16": "avx512bf16",
    "avx512_bitalg": "avx512bitalg",
    "avx512_fp16": "avx512fp16",
    "avx512_vbmi2": "avx512vbmi2",
    "avx512_vnni": "avx512vnni",
    "avx512_vpopcntdq": "avx512vpopcntdq",
    "avx_ifma": "avxifma",
    "avx_ne_convert": "avxneconvert",
    "avx_vnni": "avxvnni",
    "avx_vnni_int16": "avxvnniint16",
    "avx_vnni_int8": "avxvnniint8",
    "bmi1": "bmi",
    "pclmulqdq": "pclmul",
    "pni": "sse3",
    "sha_ni": "sha",
    "sse4_1": "sse4.1",
    "sse4_2": "sse4.2",
}
"""Flags of /proc/cpuinfo whose names are not LLVM's."""

AARCH64_FLAGS: Final = {
    "asimd": "neon",
    "asimddp": "dotprod",
    "asimdfhm": "fp16fml",
    "asimdhp": "fullfp16",
    "asimdrdm": "rdm",
    "atomics": "lse",
    "crc32": "crc",
    "fcma": "complxnum",
    "jscvt": "jsconv",
    "lrcpc": "rcpc",
}
"""Features of /proc/cpuinfo whose names are not LLVM's."""

AARCH64_SYSCTL: Final = {
    "hw.optional.arm.FEAT_AES": "aes",
    "hw.optional.arm.FEAT_BF16": "bf16",
    "hw.optional.arm.FEAT_CRC32": "crc",
    "hw.optional.arm.FEAT_DotProd": "dotprod",
    "hw.optional.arm.FEAT_FCMA": "complxnum",
    "hw.optional.arm.FEAT_FHM": "fp16fml",
    "hw.optional.arm.FEAT_FP16": "fullfp16",
    "hw.optional.arm.FEAT_I8MM": "i8mm",
    "hw.optional.arm.FEAT_JSCVT": "jsconv",
    "hw.optional.arm.FEAT_LRCPC": "rcpc",
    "hw.optional.arm.FEAT_LSE": "lse",
    "hw.optional.arm.FEAT_RDM": "rdm",
    "hw.optional.arm.FEAT_SHA256": "sha2",
    "hw.optional.arm.FEAT_SHA3": "sha3",
    "hw.optional.arm.FEAT_SME": "sme",
    "hw.optional.arm.FEAT_SME2": "sme2",
    "hw.optional.armv8_crc32": "crc",
}
"""Keys of macOS's sysctl."""
