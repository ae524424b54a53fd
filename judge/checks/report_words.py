"""Words that any report is made of, and that say nothing of what it is about.

Above: clauses.py, additions.py, wording.py. Below: words.py.
"""

from __future__ import annotations

from judge.checks.words import vocabulary

FUNCTION = vocabulary(
    "a about above after again all also although am among an and another any anyone are aren't as at be because "
    "been before being below between both but by can can't cannot could couldn't did didn't do does doesn't doing "
    "don't down during each either else even every everybody everyone everything everywhere few for from further "
    "had has hasn't have haven't having he her here here's hers him his how however i i'd i'll i'm i've if in into "
    "is isn't it it's its itself just like may me might more most much must my neither no nobody none nor not "
    "nothing nowhere of off on once only onto or other others our out over per rather same she should since so some "
    "somewhere such than that that's the their theirs them themselves then there there's these they they're this "
    "those though through thus to too two under until up upon us very via was wasn't we we've well were weren't "
    "what when where whereas whether which while who whom whose why will with within without won't would yes yet "
    "you you'd your yours"
)
"""Words that hold sentences together."""
GLUE = vocabulary(
    "able accordingly actual actually add added additionally afterwards ago ahead alone along already altogether "
    "always amount amounts answers apart appear appears applied apply around asked available away back based became "
    "become becomes begin belongs bring brings brought call called calls came carried case change changed changes "
    "check checked checking checks come comes complete completed confirm confirmed contain contained containing "
    "contains content contents correct correctly corresponding cost costs count counted counts create created "
    "currently data date dated detail details did differ difference different directly done double earlier earliest "
    "end ended ends entries entry equal equals exact exactly exist existing exists file filed files final finally "
    "find finding finds finished first fit fits follow followed following follows former found full fully gave get "
    "gets give given gives giving go goes going got greatest happened held highest hold holds include included "
    "includes including information instead item items keep keeps kept key know known largest last later latest "
    "latter least leave leaves leaving led left less let line lines list listed lists local look looked looking "
    "lower lowest made make makes making many match matched matches mean means message moved name named names need "
    "needed needs new newest next note noted now number numbers old oldest one open order original originally "
    "overall page part place placed point points possible present previous previously put quantity ran read reads "
    "ready receive received record recorded records refer refers remain remained remaining remains remember "
    "remembered replaced report reported request requested required respectively rest result resulting results "
    "return returned returns right row rows run runs said save saved say saying says see seen set sets several show "
    "showed showing shown shows single smallest soon stand standing stands start started starts state stated states "
    "stay stays step steps still store stored stores succeeded success successful successfully sum sums sure take "
    "taken takes taking task tell tells text thank thanks thing things third three time times today together told "
    "took tool tools top total totals turn turned type unchanged under update updated updates use used uses using "
    "value values verified want wanted way went whole word words work worked works worth write writes writing "
    "written wrong wrote"
)
"""Words of which reports are made, whatever they are about."""
OTHER = vocabulary(
    "der das und ist eine nicht mit von auf dem zu im für auch sich le les des est dans pour une avec sur que qui el "
    "los las del una por para con il che della sono non het een van niet os dos das uma och att som på ett"
)
"""The same of other languages."""
NUMBERS = {
    word: float(number)
    for word, _, number in (
        each.partition("=")
        for each in vocabulary(
            "four=4 five=5 six=6 seven=7 eight=8 nine=9 ten=10 eleven=11 twelve=12 dozen=12 thirteen=13 fourteen=14 "
            "fifteen=15 sixteen=16 seventeen=17 eighteen=18 nineteen=19 twenty=20 thirty=30 forty=40 fifty=50 "
            "sixty=60 seventy=70 eighty=80 ninety=90 hundred=100 thousand=1000"
        )
    )
}
"""Small ones are left out: they are said without counting."""
CLAIMING = vocabulary(
    "than will soon higher highest lower lowest largest greatest smallest newest oldest earlier earliest later latest "
    "least double open ready received available required needed possible confirmed verified wrong tomorrow due because "
    "since owing reason"
)
"""Words of reports, and words that hold sentences together, that state something of the world where nothing that was
seen speaks of it."""
DEEDS = vocabulary(
    "add append calculate change check commit compare compute convert correct count create edit enter "
    "fetch fill find insert inspect list load look make merge modify move put query read record register remember "
    "rename replace retrieve save scan search select set store sum swap touch update view write"
)
"""What agents do in any episode, and may say that they did."""
UNDOING = vocabulary("delete remove drop erase")
"""What they may say only where something was to be taken away."""
COURTESY = vocabulary(
    "hope help helps happy glad enjoy feel free ask please sorry unfortunately apologies welcome question questions "
    "assistance assist further best regards cheers luck hello hi dear anything something nothing everything"
)
"""Words that are said to a user, and claim nothing."""
FAILING = vocabulary(
    "attempt attempts attempted try tries tried retry retried fail fails failed failing failure error errors occur "
    "occurred problem problems trouble unable missing absent server servers"
)
"""Words in which an agent admits what did not work, or what it did not find."""
