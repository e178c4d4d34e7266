"""Words of many languages for the sentence splitter: abbreviations with a full stop, words that begin sentences.

Unknown languages get the words of all. That is safe because each list says what must follow: titles stand before
names, `Nr.` before a number, and only words that hardly ever begin anything but a sentence are listed as beginnings.
"""

from dataclasses import dataclass
from functools import cache

BEFORE_ALL = {
    "": "vs cf ca dr prof mr mrs ms mme mlle e.g i.e",
    "en": "rev hon gen col lt capt cpl sgt maj adm cmdr gov sen rep pres messrs mt approx viz",
    "de": "bzw vgl sog ggf evtl inkl exkl zzgl bspw dipl ing hrn frl geb gegr gez hrsg insb insbes einschl entspr ehem "
    "z.b d.h u.u i.d.r",
    "fr": "mm mgr pr av env éd p.ex c.-à-d",
    "es": "sra srta dra dña ud uds vd vds excmo excma ee aprox gral lic p.ej",
    "it": "sig sigg dott avv arch gent egr spett p.es",
    "pt": "sra dra exmo exma eng p.ex",
    "nl": "dhr mevr mw drs bijv zgn d.w.z",
    "pl": "np ul tzw tzn mgr inż hab zob",
    "cs": "např tzv mudr",
    "sv": "t.ex dvs",
    "ru": "ул просп пер им тов акад проф доц см ср напр т.е т.к",
    "uk": "вул просп ім див",
}
"""Abbreviations after which no sentence ends, whatever follows."""
BEFORE_NUMBERS = {
    "": "no nos nr p pp s fig figs art arts vol ch sec par op n",
    "en": "eq eqs ex jan feb mar apr jun jul aug sep sept oct nov dec ref refs ver chap tab pt",
    "de": "abb bd bde kap tab ziff jan feb mär apr jun jul aug sept okt nov dez tel pos ausg aufl hft anl",
    "fr": "chap janv févr avr juil sept oct nov déc tél fasc",
    "es": "pág págs núm núms cap tel fecha",
    "it": "pag pagg cap tel",
    "pt": "pág págs núm cap",
    "nl": "blz hfdst afb",
    "pl": "str rys poz art nr ust",
    "cs": "č str obr",
    "ru": "рис стр табл гл разд ст п пп кв д корп тел № г",
    "uk": "рис стор табл розд",
}
"""Abbreviations after which no sentence ends where a number follows."""
BEFORE_NAMES = {
    "": "jr sr st ste inc ltd co corp bros llc al",
    "en": "ave blvd rd ft dept univ est esp incl u.s u.k e.u u.n d.c b.c a.d ph.d m.d",
    "de": "str mio mrd tsd abs allg mind max min fr hr bes u.a",
    "fr": "cie",
    "es": "uu",
    "nl": "excl incl evt resp",
    "pl": "al tys mln mld zł wg r w",
    "cs": "tj resp nám",
    "ru": "тыс млн млрд руб коп др г гг в вв",
    "uk": "тис млн млрд грн",
}
"""Abbreviations that may end a sentence: they do where a word follows that begins one."""
AFTER_LISTS = {
    "": "etc",
    "en": "a.m p.m",
    "de": "usw u.s.w usf u.ä o.ä",
    "es": "a.m p.m",
    "it": "ecc",
    "nl": "enz",
    "pl": "itd itp",
    "cs": "atd apod",
    "sv": "osv",
    "ru": "т.д т.п",
}
"""Abbreviations that often end a sentence: they do before a capital letter, in German before a word that begins one."""
BEGINNINGS = {
    "en": "a an the this that these those i he she it we you they his her its my our your their there here then when "
    "where what who why how if but and so or not no yes in on at as for from with after before although because while "
    "however today yesterday tomorrow one some many most all both each every is are was were do does did please",
    "de": "der die das den dem des ein eine einen einem einer dies diese dieser dieses ich du er sie es wir ihr sein "
    "seine ihre mein meine unser dort hier da dann danach wenn als wo was wer wie warum weil aber und oder doch nicht "
    "kein keine ja nein im in am an auf aus bei bis für mit nach von vor zu heute gestern morgen alle viele man auch "
    "so nun jetzt ist sind war waren hat haben",
    "fr": "le la les un une des ce cet cette ces il elle ils elles on je tu nous vous mon son sa ses notre leur mais "
    "et ou donc si quand où que qui dans en sur pour avec après avant oui non puis alors c'est",
    "es": "el la los las un una unos unas este esta estos estas ese esa yo tú él ella nosotros ellos su sus mi pero "
    "y o si cuando donde qué quién en con para por después antes sí no luego entonces se es son",
    "it": "il lo la i gli le un una questo questa io tu lui lei noi voi loro ma e o se quando dove che chi in con per "
    "dopo prima sì no poi è sono",
    "pt": "o a os as um uma este esta eu ele ela nós eles mas e ou se quando onde em com para depois antes sim não é",
    "nl": "de het een dit dat deze die ik jij hij zij wij ze we maar en of als waar wat wie in op met voor na ja nee",
    "ru": "он она оно они мы вы я ты это этот эта эти тот там тут но и а если когда где что кто как в на с по после да "
    "нет потом все его её их",
}
"""Words that, capitalised, begin a sentence where it is doubtful whether one ends."""
WITH_ORDINALS = "de cs sk da nb nn no fi et lv hu hr sl sr pl tr eu is"
"""Languages that write ordinal numbers with a full stop: `am 1. Mai`."""
BEFORE_ORDINALS = "am im vom zum beim der die das den dem des ein eine einen einem einer jeder jede jedes ab bis"
"""German words after which a number with a full stop is an ordinal, whatever the language."""
EXCLAMATIONS = "yahoo jeopardy yum"
"""Names that end in an exclamation mark."""


@dataclass(frozen=True)
class Words:
    """The words of a language, or of all."""

    before_all: frozenset[str]
    before_numbers: frozenset[str]
    before_names: frozenset[str]
    after_lists: frozenset[str]
    beginnings: frozenset[str]
    ordinals: bool
    """Whether a number with a full stop is an ordinal, unless a word follows that begins a sentence."""
    nouns_are_capitalised: bool
    before_ordinals: frozenset[str] = frozenset(BEFORE_ORDINALS.split())
    exclamations: frozenset[str] = frozenset(EXCLAMATIONS.split())


@cache
def words_of(language: str | None) -> Words:
    """The words of a language by its code (`en`, `pt-BR`); of all languages where the code is None or has no lists."""
    code = (language or "").lower().replace("_", "-").partition("-")[0]
    has_lists = any(code in table for table in (BEFORE_ALL, BEGINNINGS)) and code != ""

    def listed(table: dict[str, str]) -> frozenset[str]:
        lists = [table.get("", ""), table.get(code, "")] if has_lists else table.values()
        return frozenset(word for words in lists for word in words.split())

    tables = (BEFORE_ALL, BEFORE_NUMBERS, BEFORE_NAMES, AFTER_LISTS, BEGINNINGS)
    return Words(
        *map(listed, tables), ordinals=code in WITH_ORDINALS.split(), nouns_are_capitalised=code in ("de", "lb")
    )
