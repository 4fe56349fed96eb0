"""Names in the manner of botany: invented genera, and epithets from the ordinary Latin of plant names."""

from collections.abc import Callable, Sequence

FIRST = "Al Be Ca Cor Da Dra Ela Fla Gal Hel Ira Jun Lam Lu Mel Mira No Ori Pe Pri Quer Ra Sal Sela Tra Ul Ver Vi Xan Zel"
MIDDLE = "ba be ca da di la li lo ma me mo na ni no pa ra ri ro sa ta ti va ve vi"
LAST = "bia cium dra fera gia lia lis nia nthus num phora ria ris ron sia thum tia via xia"
SYLLABLES = tuple(part.split() for part in (FIRST, MIDDLE, LAST))
EPITHET_WORDS = (
    "alba alpina alternata amara angusta annua aquatica arvensis aurea australis autumnalis barbata borealis "
    "caerulea campestris cana clara communis cordata crispa decora densa dulcis elata elegans erecta flava foetida "
    "fragilis fragrans fulva gracilis grandis hirsuta humilis incana laeta lanata lata laxa litoralis longa lucida "
    "lutea maculata magna maritima minor mollis montana nana nemoralis nigra nitida nivalis nobilis nutans obscura "
    "occidentalis orientalis pallida palustris parva perennis picta plana pratensis procera prostrata pulchra "
    "pumila pura recta repens rigida rivalis robusta rosea rubra rupestris sativa saxatilis scandens serotina "
    "silvestris simplex speciosa sterilis stricta tenuis tomentosa tristis umbrosa varia velutina venusta vera "
    "vernalis viridis vulgaris "
)
EPITHETS = EPITHET_WORDS.split()


def genus_names(count: int, below: Callable[[int], int]) -> list[str]:
    """So many different names; a number is added once the syllables are used up."""
    names: dict[str, None] = {}
    attempts = 0
    while len(names) < count:
        attempts += 1
        name = "".join(part[below(len(part))] for part in SYLLABLES)
        names.setdefault(name if attempts < 20 * count else f"{name}{attempts}")
    return list(names)


def binomials(genus_of_each: Sequence[str], below: Callable[[int], int]) -> list[str]:
    """Genus and epithet of each species; within a genus no epithet twice."""
    names: dict[str, None] = {}
    for genus in genus_of_each:
        start = below(len(EPITHETS))
        candidates = (f"{genus} {EPITHETS[(start + step) % len(EPITHETS)]}" for step in range(len(EPITHETS)))
        name = next((name for name in candidates if name not in names), f"{genus} {len(names)}")
        names[name] = None
    return list(names)
