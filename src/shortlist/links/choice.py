"""The fitted links by name."""

from collections.abc import Mapping

from shortlist.links.beta import Beta
from shortlist.links.fitted import FittedLink
from shortlist.links.per_label import Isotonic, Platt
from shortlist.links.temperature import Temperature
from shortlist.links.venn_abers import VennAbers

CALIBRATIONS: Mapping[str, type[FittedLink]] = {link.kind: link for link in (Temperature, Platt, Beta, Isotonic, VennAbers)}
