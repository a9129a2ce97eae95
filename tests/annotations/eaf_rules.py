"""The rules of EAF that we rely on, checked without its schema."""

from xml.etree import ElementTree

ORDER = (
    "LICENSE HEADER TIME_ORDER TIER LINGUISTIC_TYPE LOCALE LANGUAGE CONSTRAINT "
    "CONTROLLED_VOCABULARY LEXICON_REF REF_LINK_SET EXTERNAL_REF"
).split()


def broken_rules(data: bytes) -> list[str]:
    """List what is against the rules in a file of ours (no stranger's: it is parsed plainly)."""
    root = ElementTree.fromstring(data)
    told = []
    ranks = [ORDER.index(child.tag) for child in root if child.tag in ORDER]
    if ranks != sorted(ranks):
        told.append("elements are out of order")
    slots = {slot.get("TIME_SLOT_ID"): slot.get("TIME_VALUE") for slot in root.iter("TIME_SLOT")}
    times = [int(value) for value in slots.values() if value is not None]
    if times != sorted(times):
        told.append("time slots are out of order")
    annotations = [*root.iter("ALIGNABLE_ANNOTATION"), *root.iter("REF_ANNOTATION")]
    ids = [each.get("ANNOTATION_ID") for each in annotations] + list(slots)
    if len(ids) != len(set(ids)) or None in ids:
        told.append("ids are not unique")
    types = {each.get("LINGUISTIC_TYPE_ID"): each for each in root.iter("LINGUISTIC_TYPE")}
    constraints = {each.get("STEREOTYPE") for each in root.iter("CONSTRAINT")}
    tiers = {each.get("TIER_ID"): each for each in root.iter("TIER")}
    if len(tiers) != len(list(root.iter("TIER"))):
        told.append("tiers' names are not unique")
    for name, tier in tiers.items():
        kind = types.get(tier.get("LINGUISTIC_TYPE_REF"))
        if kind is None:
            told.append(f"{name}: no such linguistic type")
            continue
        constraint = kind.get("CONSTRAINTS")
        if constraint is not None and constraint not in constraints:
            told.append(f"{name}: no constraint {constraint}")
        if (constraint is None) != (tier.get("PARENT_REF") is None):
            told.append(f"{name}: a parent without a constraint, or the other way round")
        if tier.get("PARENT_REF") is not None and tier.get("PARENT_REF") not in tiers:
            told.append(f"{name}: no such parent")
        symbolic = constraint in ("Symbolic_Association", "Symbolic_Subdivision")
        if symbolic == (kind.get("TIME_ALIGNABLE") == "true"):
            told.append(f"{name}: time-alignable against its constraint")
        for each in tier.iter("ALIGNABLE_ANNOTATION"):
            if symbolic or each.get("TIME_SLOT_REF1") not in slots:
                told.append(f"{name}: an alignable annotation has no place")
        for each in tier.iter("REF_ANNOTATION"):
            if not symbolic or each.get("ANNOTATION_REF") not in ids:
                told.append(f"{name}: a reference annotation has no place")
    return told
