"""Numbers, clock times and dates in words; German says the units before the tens: 'einundzwanzig'."""

from regard.data.street.phrases import Phrase

_SMALL = """
zero null | one eins | two zwei | three drei | four vier | five fünf | six sechs | seven sieben | eight acht |
nine neun | ten zehn | eleven elf | twelve zwölf | thirteen dreizehn | fourteen vierzehn | fifteen fünfzehn |
sixteen sechzehn | seventeen siebzehn | eighteen achtzehn | nineteen neunzehn
"""
_TENS = """
twenty zwanzig | thirty dreißig | forty vierzig | fifty fünfzig | sixty sechzig | seventy siebzig | eighty achtzig |
ninety neunzig
"""
_MONTHS = """
January Januar | February Februar | March März | April April | May Mai | June Juni | July Juli | August August |
September September | October Oktober | November November | December Dezember
"""
_DAYS = """
Monday Montag | Tuesday Dienstag | Wednesday Mittwoch | Thursday Donnerstag | Friday Freitag | Saturday Samstag |
Sunday Sonntag
"""


def _phrases(table: str) -> tuple[Phrase, ...]:
    return tuple(Phrase(*entry.split()) for entry in table.split("|"))


SMALL, TENS, MONTHS, DAYS = map(_phrases, (_SMALL, _TENS, _MONTHS, _DAYS))

IRREGULAR_ORDINALS = {
    "one": Phrase("first", "ersten"),
    "two": Phrase("second", "zweiten"),
    "three": Phrase("third", "dritten"),
    "five": Phrase("fifth", "fünften"),
    "seven": Phrase("seventh", "siebten"),
    "eight": Phrase("eighth", "achten"),
    "nine": Phrase("ninth", "neunten"),
    "twelve": Phrase("twelfth", "zwölften"),
}


def cardinal(number: int) -> Phrase:
    """A number from 0 to 99, or a whole hundred below a thousand."""
    if number < 20:
        return SMALL[number]
    if number >= 100:
        hundreds = SMALL[number // 100]
        return Phrase(f"{hundreds.english} hundred", f"{_inside(hundreds)}hundert")
    tens, units = TENS[number // 10 - 2], SMALL[number % 10]
    if number % 10 == 0:
        return tens
    return Phrase(f"{tens.english}-{units.english}", f"{_inside(units)}und{tens.german}")


def _inside(number: Phrase) -> str:
    """How a number reads before more words: 'ein Uhr', 'einundzwanzig'."""
    return "ein" if number.german == "eins" else number.german


def ordinal(number: int) -> Phrase:
    """A number of order from 1 to 31, in German with the ending it has after 'am'."""
    if number < 20:
        plain = SMALL[number]
        return IRREGULAR_ORDINALS.get(plain.english) or Phrase(f"{plain.english}th", f"{plain.german}ten")
    english, german = cardinal(number)
    tens, dash, units = english.rpartition("-")
    last = ordinal(number % 10).english if dash else units[:-1] + "ieth"
    return Phrase(tens + dash + last, f"{german}sten")


MINUTES = {
    0: Phrase("{hour} o'clock", "{hour} Uhr"),
    5: Phrase("five past {hour}", "fünf nach {hour}"),
    10: Phrase("ten past {hour}", "zehn nach {hour}"),
    15: Phrase("a quarter past {hour}", "Viertel nach {hour}"),
    20: Phrase("twenty past {hour}", "zwanzig nach {hour}"),
    30: Phrase("half past {hour}", "halb {hour}"),
    40: Phrase("twenty to {hour}", "zwanzig vor {hour}"),
    45: Phrase("a quarter to {hour}", "Viertel vor {hour}"),
    50: Phrase("ten to {hour}", "zehn vor {hour}"),
    55: Phrase("five to {hour}", "fünf vor {hour}"),
}
"""How the clock is read, by the minutes past the full hour."""


def clock(hour: int, minutes: int) -> Phrase:
    """A time of day on a clock of twelve hours; German counts 'halb' towards the next hour."""
    english, german = MINUTES[minutes]
    following = hour % 12 + 1
    english_hour = cardinal(following if minutes > 30 else hour).english
    german_number = cardinal(following if minutes >= 30 else hour)
    german_hour = german_number.german if minutes else _inside(german_number)
    return Phrase(f"at {english.format(hour=english_hour)}", f"um {german.format(hour=german_hour)}")


def date(day: int, month: int) -> Phrase:
    """A day of the year: 'on the third of May'."""
    number, name = ordinal(day), MONTHS[month - 1]
    return Phrase(f"on the {number.english} of {name.english}", f"am {number.german} {name.german}")


DAYS_OF_MONTH = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
