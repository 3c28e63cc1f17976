"""LLVM's CPU names with the instruction-set features that each implies.

As `mojo build --print-supported-cpus` and `--print-effective-target` of MAX 26.7.0 give them, less the features that
compiled code does not use; CPUs with the same features share a line.
"""

from __future__ import annotations

from typing import Final

_X86_64: Final = (
    (
        "nocona",
        "x86-64 cx16 sse3",
    ),
    (
        "core2",
        "x86-64 cx16 sse3 ssse3",
    ),
    (
        "penryn",
        "x86-64 cx16 sse3 sse4.1 ssse3",
    ),
    (
        "bonnell atom",
        "x86-64 cx16 movbe sse3 ssse3",
    ),
    (
        "silvermont slm",
        "x86-64-v2 movbe pclmul",
    ),
    (
        "goldmont goldmont-plus",
        "x86-64-v2 aes movbe pclmul sha",
    ),
    (
        "tremont",
        "x86-64-v2 aes gfni movbe pclmul sha",
    ),
    (
        "nehalem corei7 x86-64-v2",
        "x86-64 cx16 popcnt sse3 sse4.1 sse4.2 ssse3",
    ),
    (
        "westmere",
        "x86-64-v2 pclmul",
    ),
    (
        "sandybridge corei7-avx",
        "x86-64-v2 avx pclmul",
    ),
    (
        "ivybridge core-avx-i",
        "x86-64-v2 avx f16c pclmul",
    ),
    (
        "haswell core-avx2",
        "x86-64-v3 pclmul",
    ),
    (
        "broadwell",
        "x86-64-v3 adx pclmul",
    ),
    (
        "skylake",
        "x86-64-v3 adx aes pclmul",
    ),
    (
        "skylake-avx512 skx",
        "x86-64-v4 adx aes pclmul",
    ),
    (
        "cascadelake",
        "x86-64-v4 adx aes avx512vnni pclmul",
    ),
    (
        "cooperlake",
        "x86-64-v4 adx aes avx512bf16 avx512vnni pclmul",
    ),
    (
        "cannonlake",
        "x86-64-v4 adx aes avx512ifma avx512vbmi pclmul sha",
    ),
    (
        "icelake-client rocketlake icelake-server tigerlake emeraldrapids",
        "x86-64-v4 adx aes avx512bitalg avx512ifma avx512vbmi avx512vbmi2 avx512vnni avx512vpopcntdq gfni "
        "pclmul sha vaes vpclmulqdq",
    ),
    (
        "sapphirerapids",
        "x86-64-v4 adx aes amx-bf16 amx-int8 amx-tile avx512bf16 avx512bitalg avx512fp16 avx512ifma "
        "avx512vbmi avx512vbmi2 avx512vnni avx512vpopcntdq avxvnni gfni pclmul sha vaes vpclmulqdq",
    ),
    (
        "alderlake raptorlake meteorlake gracemont",
        "x86-64-v3 adx aes avxvnni gfni pclmul sha vaes vpclmulqdq",
    ),
    (
        "arrowlake sierraforest grandridge",
        "x86-64-v3 adx aes avxifma avxneconvert avxvnni avxvnniint8 gfni pclmul sha vaes vpclmulqdq",
    ),
    (
        "arrowlake-s lunarlake pantherlake wildcatlake clearwaterforest",
        "x86-64-v3 adx aes avxifma avxneconvert avxvnni avxvnniint16 avxvnniint8 gfni pclmul sha vaes vpclmulqdq",
    ),
    (
        "novalake",
        "x86-64-v4 adx aes avx512bf16 avx512bitalg avx512fp16 avx512ifma avx512vbmi avx512vbmi2 avx512vnni "
        "avx512vpopcntdq avxifma avxneconvert avxvnni avxvnniint16 avxvnniint8 gfni pclmul sha vaes "
        "vpclmulqdq",
    ),
    (
        "graniterapids graniterapids-d",
        "x86-64-v4 adx aes amx-bf16 amx-fp16 amx-int8 amx-tile avx512bf16 avx512bitalg avx512fp16 "
        "avx512ifma avx512vbmi avx512vbmi2 avx512vnni avx512vpopcntdq avxvnni gfni pclmul sha vaes "
        "vpclmulqdq",
    ),
    (
        "diamondrapids",
        "x86-64-v4 adx aes amx-bf16 amx-fp16 amx-int8 amx-tile avx512bf16 avx512bitalg avx512fp16 "
        "avx512ifma avx512vbmi avx512vbmi2 avx512vnni avx512vpopcntdq avxifma avxneconvert avxvnni "
        "avxvnniint16 avxvnniint8 gfni pclmul sha vaes vpclmulqdq",
    ),
    (
        "knl",
        "x86-64-v3 adx aes avx512cd avx512f pclmul",
    ),
    (
        "knm",
        "x86-64-v3 adx aes avx512cd avx512f avx512vpopcntdq pclmul",
    ),
    (
        "k8 athlon64 athlon-fx opteron x86-64",
        "",
    ),
    (
        "k8-sse3 athlon64-sse3 opteron-sse3",
        "x86-64 sse3",
    ),
    (
        "amdfam10 barcelona",
        "x86-64 cx16 lzcnt popcnt sse3",
    ),
    (
        "btver1",
        "x86-64 cx16 lzcnt popcnt sse3 ssse3",
    ),
    (
        "btver2",
        "x86-64-v2 aes avx bmi f16c lzcnt movbe pclmul",
    ),
    (
        "bdver1",
        "x86-64-v2 aes avx fma4 lzcnt pclmul xop",
    ),
    (
        "bdver2 bdver3",
        "x86-64-v2 aes avx bmi f16c fma fma4 lzcnt pclmul tbm xop",
    ),
    (
        "bdver4",
        "x86-64-v3 aes fma4 pclmul tbm xop",
    ),
    (
        "znver1 znver2 c86-4g-m4 c86-4g-m6",
        "x86-64-v3 adx aes pclmul sha",
    ),
    (
        "znver3",
        "x86-64-v3 adx aes pclmul sha vaes vpclmulqdq",
    ),
    (
        "znver4 c86-4g-m7 c86-4g-m8",
        "x86-64-v4 adx aes avx512bf16 avx512bitalg avx512ifma avx512vbmi avx512vbmi2 avx512vnni "
        "avx512vpopcntdq gfni pclmul sha vaes vpclmulqdq",
    ),
    (
        "znver5",
        "x86-64-v4 adx aes avx512bf16 avx512bitalg avx512ifma avx512vbmi avx512vbmi2 avx512vnni "
        "avx512vpopcntdq avxvnni gfni pclmul sha vaes vpclmulqdq",
    ),
    (
        "znver6",
        "x86-64-v4 adx aes avx512bf16 avx512bitalg avx512fp16 avx512ifma avx512vbmi avx512vbmi2 avx512vnni "
        "avx512vpopcntdq avxifma avxneconvert avxvnni avxvnniint8 gfni pclmul sha vaes vpclmulqdq",
    ),
    (
        "x86-64-v3",
        "x86-64-v2 avx avx2 bmi bmi2 f16c fma lzcnt movbe",
    ),
    (
        "x86-64-v4",
        "x86-64-v3 avx512bw avx512cd avx512dq avx512f avx512vl",
    ),
)

_AARCH64: Final = (
    (
        "a64fx",
        "aes complxnum crc fullfp16 lse neon rdm sha2 sve",
    ),
    (
        "ampere1 ampere1a ampere1b",
        "aes bf16 complxnum crc dotprod fullfp16 i8mm jsconv lse neon rcpc rdm sha2 sha3",
    ),
    (
        "ampere1c",
        "fp16fml neon sve2",
    ),
    (
        "apple-a10 falkor",
        "aes crc neon rdm sha2",
    ),
    (
        "apple-a11 carmel",
        "aes crc fullfp16 lse neon rdm sha2",
    ),
    (
        "apple-a12 apple-s4 apple-s5",
        "aes complxnum crc fullfp16 jsconv lse neon rcpc rdm sha2",
    ),
    (
        "apple-a13 apple-a14 apple-m1 apple-s6 apple-s7 apple-s8",
        "aes complxnum crc dotprod fp16fml fullfp16 jsconv lse neon rcpc rdm sha2 sha3",
    ),
    (
        "apple-a15 apple-a16 apple-a17 apple-m2 apple-m3 apple-s10 apple-s9",
        "aes bf16 complxnum crc dotprod fp16fml fullfp16 i8mm jsconv lse neon rcpc rdm sha2 sha3",
    ),
    (
        "apple-a18 apple-a19 apple-m4 apple-m5",
        "aes bf16 complxnum crc dotprod fp16fml fullfp16 i8mm jsconv lse neon rcpc rdm sha2 sha3 sme sme2",
    ),
    (
        "apple-a7 apple-a8 apple-a9 cyclone",
        "aes neon sha2",
    ),
    (
        "armagicpu cobalt-100 cortex-a510 cortex-a520 cortex-a520ae cortex-a710 cortex-a715 cortex-a720 "
        "cortex-a720ae cortex-a725 cortex-x2 cortex-x3 cortex-x4 cortex-x925 gb10 grace hip12 neoverse-n2 "
        "neoverse-n3 neoverse-v2 neoverse-v3 neoverse-v3ae",
        "bf16 complxnum crc dotprod fp16fml fullfp16 i8mm jsconv lse neon rcpc rdm sve sve2",
    ),
    (
        "c1-nano c1-premium c1-pro c1-ultra c2-pro c2-ultra",
        "bf16 complxnum dotprod fp16fml fullfp16 jsconv neon rdm sme sme2 sve sve2",
    ),
    (
        "cortex-a320",
        "complxnum crc dotprod fp16fml fullfp16 jsconv lse neon rdm sve sve2",
    ),
    (
        "cortex-a34 cortex-a35 cortex-a53 cortex-a57 cortex-a72 cortex-a73 exynos-m3 kryo thunderx "
        "thunderxt81 thunderxt83 thunderxt88",
        "aes crc neon sha2",
    ),
    (
        "cortex-a55 cortex-a65 cortex-a65ae cortex-a75 cortex-a76 cortex-a76ae cortex-a77 cortex-a78 "
        "cortex-a78ae cortex-a78c cortex-x1 cortex-x1c neoverse-e1 neoverse-n1",
        "aes crc dotprod fullfp16 lse neon rcpc rdm sha2",
    ),
    (
        "cortex-r82 cortex-r82ae",
        "complxnum crc dotprod fp16fml fullfp16 jsconv lse neon rcpc rdm",
    ),
    (
        "exynos-m4 exynos-m5",
        "aes crc dotprod fullfp16 lse neon rdm sha2",
    ),
    (
        "fujitsu-monaka olympus rigel",
        "fp16fml sve2",
    ),
    (
        "generic",
        "neon",
    ),
    (
        "neoverse-512tvb neoverse-v1",
        "aes bf16 complxnum crc dotprod fp16fml fullfp16 i8mm jsconv lse neon rcpc rdm sha2 sha3 sve",
    ),
    (
        "oryon-1",
        "aes bf16 complxnum crc dotprod i8mm jsconv lse neon rcpc rdm sha2 sha3",
    ),
    (
        "saphira",
        "aes crc lse neon rcpc rdm sha2",
    ),
    (
        "thunderx2t99",
        "aes crc lse neon rdm sha2",
    ),
    (
        "thunderx3t110",
        "aes complxnum crc jsconv lse neon rcpc rdm sha2",
    ),
    (
        "tsv110",
        "aes complxnum crc dotprod fp16fml fullfp16 jsconv lse neon rdm sha2",
    ),
)


def _table(groups: tuple[tuple[str, str], ...]) -> dict[str, frozenset[str]]:
    """Feature sets by name; a name among a group's features stands for that CPU's."""
    written = {name: features.split() for names, features in groups for name in names.split()}

    def expand(features: list[str]) -> frozenset[str]:
        return frozenset().union(*(expand(written[f]) if f in written else {f} for f in features))

    return {name: expand(features) for name, features in written.items()}


CPUS: Final = {"x86_64": _table(_X86_64), "aarch64": _table(_AARCH64)}
"""By architecture, then by CPU name."""
