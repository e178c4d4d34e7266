"""The adjectives, and which of them suit which nouns."""

from regard.data.street.words import Adjective, read_adjective

TABLE = """
good better best = gut besser best
old older oldest = alt älter ältest
young younger youngest = jung jünger jüngst
big bigger biggest = groß größer größt
small smaller smallest = klein kleiner kleinst
strong stronger strongest = stark stärker stärkst
clever cleverer cleverest = klug klüger klügst
fast faster fastest = schnell schneller schnellst
slow slower slowest = langsam langsamer langsamst
rich richer richest = reich reicher reichst
heavy heavier heaviest = schwer schwerer schwerst
beautiful more+beautiful most+beautiful = schön schöner schönst
expensive more+expensive most+expensive = teuer/teur teurer teuerst
cheap cheaper cheapest = billig billiger billigst
high higher highest = hoch/hoh höher höchst
long longer longest = lang länger längst
wide wider widest = breit breiter breitest
dark darker darkest = dunkel/dunkl dunkler dunkelst

new = neu
red = rot
blue = blau
black = schwarz
white = weiß
warm = warm
cold = kalt
hot = heiß
fresh = frisch
tasty = lecker
friendly = freundlich
wild = wild

tired = müde/müd
weak = schwach
hungry = hungrig
scared = ängstlich
sick = krank
happy = glücklich
sad = traurig
lazy = faul
icy = vereist
muddy = schlammig
dangerous = gefährlich
slippery = glatt
full = voll
hard = hart
dry = trocken
bitter = bitter
salty = salzig
sour = sauer/saur
sweet = süß
thick = dick
narrow = eng
low = niedrig
"""

ADJECTIVES = {word.english: word for word in map(read_adjective, filter(None, TABLE.splitlines()))}
"""Every adjective by its English form."""


def qualities(names: str) -> tuple[Adjective, ...]:
    """The adjectives with these English names, separated by spaces."""
    return tuple(ADJECTIVES[name] for name in names.split())


_THING = qualities("old new big small heavy beautiful expensive cheap red blue")
SUITING = {
    "person": qualities("old young strong clever rich friendly tired sick"),
    "child": qualities("young strong clever friendly tired sick"),
    "animal": qualities("old young big small black white wild hungry"),
    "way": qualities("long wide dark"),
    "food": qualities("fresh cold hot tasty"),
    "drink": qualities("cold hot fresh sweet"),
    "thing": _THING,
    "text": qualities("old new long beautiful"),
    "clothing": qualities("old new warm beautiful red blue black white"),
    "container": qualities("old new big small heavy"),
    "vehicle": qualities("old new big small fast expensive"),
    "passage": qualities("old big small"),
    "height": qualities("old big small beautiful"),
    "place": qualities("old new big small beautiful"),
    "event": qualities("long beautiful"),
}
"""The adjectives that may stand before a noun of each kind."""
