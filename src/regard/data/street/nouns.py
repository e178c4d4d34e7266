"""The nouns by what they mean, and the adjectives that suit them: sentences are drawn from these groups, so that they
make sense."""

from regard.data.street.words import Adjective, Noun, read_adjective, read_noun

NOUN_TABLE = """
[person]
man/men = der Mann Männer
woman/women = die Frau Frauen
teacher = der Lehrer Lehrer
doctor = der Arzt Ärzte
chef = der Koch Köche
neighbour = der Nachbar/Nachbarn Nachbarn
student = der Student/Studenten Studenten
farmer = der Bauer/Bauern Bauern
guest = der Gast Gäste
friend = der Freund Freunde
king = der König Könige
queen = die Königin Königinnen
aunt = die Tante Tanten
uncle = der Onkel Onkel
mother = die Mutter Mütter
father = der Vater Väter
sister = die Schwester Schwestern
brother = der Bruder Brüder

[child]
child/children = das Kind Kinder
boy = der Junge/Jungen Jungen
girl = das Mädchen Mädchen

[animal]
animal = das Tier Tiere
dog = der Hund Hunde
bear = der Bär/Bären Bären
fox = der Fuchs Füchse
donkey = der Esel Esel
monkey = der Affe/Affen Affen
hare = der Hase/Hasen Hasen
cat = die Katze Katzen
cow = die Kuh Kühe
goat = die Ziege Ziegen
duck = die Ente Enten
mouse/mice = die Maus Mäuse
goose/geese = die Gans Gänse
horse = das Pferd Pferde
pig = das Schwein Schweine
camel = das Kamel Kamele
rabbit = das Kaninchen Kaninchen
lamb = das Lamm Lämmer

[way]
path = der Weg Wege
river = der Fluss Flüsse
square = der Platz Plätze
street = die Straße Straßen
bridge = die Brücke Brücken
meadow = die Wiese Wiesen
field = das Feld Felder
valley = das Tal Täler
bog = das Moor Moore

[food]
apple = der Apfel Äpfel
cake = der Kuchen Kuchen
cheese = der Käse -
fish = der Fisch -
potato = die Kartoffel Kartoffeln
sausage = die Wurst Würste
pear = die Birne Birnen
carrot = die Karotte Karotten
bread = das Brot -
meat = das Fleisch -
egg = das Ei Eier
roll = das Brötchen Brötchen

[drink]
juice = der Saft -
tea = der Tee -
coffee = der Kaffee -
milk = die Milch -
lemonade = die Limonade -
water = das Wasser -
beer = das Bier -

[thing]
suitcase = der Koffer Koffer
mirror = der Spiegel Spiegel
table = der Tisch Tische
carpet = der Teppich Teppiche
chair = der Stuhl Stühle
lamp = die Lampe Lampen
guitar = die Gitarre Gitarren
vase = die Vase Vasen
clock = die Uhr Uhren
picture = das Bild Bilder
bicycle = das Fahrrad Fahrräder
pillow = das Kissen Kissen
book = das Buch Bücher
radio/radios = das Radio Radios

[text]
letter = der Brief Briefe
song = das Lied Lieder

[clothing]
coat = der Mantel Mäntel
hat = der Hut Hüte
jacket = die Jacke Jacken
blouse = die Bluse Blusen
dress = das Kleid Kleider
shirt = das Hemd Hemden

[container]
cupboard = der Schrank Schränke
sack = der Sack Säcke
basket = der Korb Körbe
box = die Kiste Kisten
bag = die Tasche Taschen
drawer = die Schublade Schubladen
package = das Paket Pakete
barrel = das Fass Fässer
glass = das Glas Gläser

[vehicle]
cart = der Wagen Wagen
sled = der Schlitten Schlitten
bus = der Bus Busse
carriage = die Kutsche Kutschen
machine = die Maschine Maschinen
car = das Auto Autos
boat = das Boot Boote
ship = das Schiff Schiffe

[passage]
tunnel = der Tunnel Tunnel
entrance = der Eingang Eingänge
corridor = der Gang Gänge
door = die Tür Türen
alley = die Gasse Gassen
gap = die Lücke Lücken
gate = das Tor Tore
window = das Fenster Fenster
hole = das Loch Löcher

[height]
tree = der Baum Bäume
tower = der Turm Türme
mountain = der Berg Berge
wall = die Mauer Mauern
ladder = die Leiter Leitern
hut = die Hütte Hütten
roof = das Dach Dächer
house = das Haus Häuser
monument = das Denkmal Denkmäler

[place]
garden = der Garten Gärten
forest = der Wald Wälder
park = der Park Parks
market = der Markt Märkte
store = der Laden Läden
station = der Bahnhof Bahnhöfe
kitchen = die Küche Küchen
school = die Schule Schulen
church = die Kirche Kirchen
city = die Stadt Städte
village = das Dorf Dörfer
hotel = das Hotel Hotels
museum = das Museum Museen
room = das Zimmer Zimmer
tent = das Zelt Zelte
bed = das Bett Betten

[event]
train = der Zug Züge
film = der Film Filme
party = die Feier Feiern
concert = das Konzert Konzerte
"""


def _read(table: str) -> dict[str, Noun]:
    nouns: dict[str, Noun] = {}
    kind = ""
    for line in filter(None, table.splitlines()):
        if line.startswith("["):
            kind = line.strip("[]")
        else:
            noun = read_noun(line, kind)
            nouns[noun.english] = noun
    return nouns


NOUNS = _read(NOUN_TABLE)
"""Every noun by its English singular."""


def of_kind(kind: str) -> tuple[Noun, ...]:
    """The nouns of a group of the table."""
    return tuple(noun for noun in NOUNS.values() if noun.kind == kind)


def named(names: str) -> tuple[Noun, ...]:
    """The nouns with these English names, separated by spaces; `[animal]` stands for all of a group."""
    groups = (of_kind(name[1:-1]) if name.startswith("[") else (NOUNS[name],) for name in names.split())
    return tuple(noun for group in groups for noun in group)


def by_verb(table: str) -> dict[str, tuple[Noun, ...]]:
    """Lines of German verbs, joined by a slash, and the nouns that go with them."""
    rows = (line.split(maxsplit=1) for line in table.strip().splitlines())
    return {verb: named(names) for verbs, names in rows for verb in verbs.split("/")}


ADJECTIVE_TABLE = """
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

ADJECTIVES = {word.english: word for word in map(read_adjective, filter(None, ADJECTIVE_TABLE.splitlines()))}
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
