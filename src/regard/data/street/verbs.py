"""The verbs, named by their German infinitive: English 'eat' is 'essen' for people and 'fressen' for animals."""

from regard.data.street.words import Verb, read_verb

TABLE = """
buy bought bought = kaufen kauft kaufte gekauft
sell sold sold = verkaufen verkauft verkaufte verkauft
see saw seen = sehen sieht sah gesehen
find found found = finden findet fand gefunden
look+for looked looked = suchen sucht suchte gesucht
visit visited visited = besuchen besucht besuchte besucht
love loved loved = lieben liebt liebte geliebt
know knew known = kennen kennt kannte gekannt
hear heard heard = hören hört hörte gehört
write wrote written = schreiben schreibt schrieb geschrieben
sing sang sung = singen singt sang gesungen
paint painted painted = malen malt malte gemalt
repair repaired repaired = reparieren repariert reparierte repariert
need needed needed = brauchen braucht brauchte gebraucht
forget forgot forgotten = vergessen vergisst vergaß vergessen
wash washed washed = waschen wäscht wusch gewaschen
bake baked baked = backen backt backte gebacken
cook cooked cooked = kochen kocht kochte gekocht
eat ate eaten = essen isst aß gegessen
eat ate eaten = fressen frisst fraß gefressen
drink drank drunk = trinken trinkt trank getrunken
carry carried carried = tragen trägt trug getragen
pull pulled pulled = ziehen zieht zog gezogen
cross crossed crossed = überqueren überquert überquerte überquert
have had had = haben hat hatte gehabt
like liked liked = mögen mag mochte gemocht
read read read = lesen liest las gelesen
do did done = machen macht machte gemacht

help helped helped = helfen hilft half geholfen
thank thanked thanked = danken dankt dankte gedankt
follow followed followed = folgen folgt folgte gefolgt sein

give gave given = geben gibt gab gegeben
show showed shown = zeigen zeigt zeigte gezeigt
send sent sent = schicken schickt schickte geschickt
lend lent lent = leihen leiht lieh geliehen
bring brought brought = bringen bringt brachte gebracht
offer offered offered = an-bieten bietet bot geboten

sleep slept slept = schlafen schläft schlief geschlafen
work worked worked = arbeiten arbeitet arbeitete gearbeitet
play played played = spielen spielt spielte gespielt
laugh laughed laughed = lachen lacht lachte gelacht
dance danced danced = tanzen tanzt tanzte getanzt
wait waited waited = warten wartet wartete gewartet
dream dreamed dreamed = träumen träumt träumte geträumt
think thought thought = denken denkt dachte gedacht
live lived lived = wohnen wohnt wohnte gewohnt
sit sat sat = sitzen sitzt saß gesessen
stand stood stood = stehen steht stand gestanden
lie lay lain = liegen liegt lag gelegen
fit fitted fitted = passen passt passte gepasst
cost cost cost = kosten kostet kostete gekostet

go went gone = gehen geht ging gegangen sein
come came come = kommen kommt kam gekommen sein
run ran run = laufen läuft lief gelaufen sein
jump jumped jumped = springen springt sprang gesprungen sein
climb climbed climbed = klettern klettert kletterte geklettert sein
travel travelled travelled = reisen reist reiste gereist sein

call called called = an-rufen ruft rief gerufen
invite invited invited = ein-laden lädt lud geladen
open opened opened = auf-machen macht machte gemacht
close closed closed = zu-machen macht machte gemacht
pick+up picked picked = ab-holen holt holte geholt
bring+along brought brought = mit-bringen bringt brachte gebracht
throw+away threw thrown = weg-werfen wirft warf geworfen
turn+on turned turned = ein-schalten schaltet schaltete geschaltet
turn+off turned turned = aus-schalten schaltet schaltete geschaltet
try+on tried tried = an-probieren probiert probierte probiert
arrive arrived arrived = an-kommen kommt kam gekommen sein
depart departed departed = ab-fahren fährt fuhr gefahren sein
begin began begun = an-fangen fängt fing gefangen
get+up got got = auf-stehen steht stand gestanden sein
fall+asleep fell fallen = ein-schlafen schläft schlief geschlafen sein
come+back came come = zurück-kommen kommt kam gekommen sein

remember remembered remembered = sich erinnern erinnert erinnerte erinnert
look+forward looked looked = sich freuen freut freute gefreut
fear feared feared = sich fürchten fürchtet fürchtete gefürchtet
rest rested rested = sich aus-ruhen ruht ruhte geruht
hurry hurried hurried = sich beeilen beeilt beeilte beeilt

say said said = sagen sagt sagte gesagt
believe believed believed = glauben glaubt glaubte geglaubt
know knew known = wissen weiß wusste gewusst
hope hoped hoped = hoffen hofft hoffte gehofft
ask asked asked = fragen fragt fragte gefragt
try tried tried = versuchen versucht versuchte versucht

want wanted wanted = wollen will wollte gewollt
have had had = müssen muss musste gemusst

be was been = sein ist war gewesen sein
"""


def _read(table: str) -> dict[str, Verb]:
    verbs = map(read_verb, filter(None, table.splitlines()))
    return {verb.german.infinitive: verb for verb in verbs}


VERBS = _read(TABLE)
"""Every verb by its German infinitive."""
