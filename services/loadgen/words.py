"""Common English words: most tokenizers know each of them as one token, with and without a space before it."""

from __future__ import annotations

_LISTED = """
    able about above across act action add after again age agree air all allow almost alone along also always among
    amount and animal answer any appear apple area arm army around arrive art ask attack aunt away baby back bad bag
    ball bank bar base be bear beat beauty become bed before begin behind believe below best better between big bird
    bit black blood blue board boat body book born both box boy branch bread break bridge bring brother brown build
    burn bus business but buy by call can car card care carry case cat catch cause cell center chair change character
    charge check child choose church circle city claim class clean clear climb close cloud coast cold collect color
    come common company compare complete condition consider contain continue control cook cool copy corn corner cost
    count country course cover create cross crowd cry cup current cut dance danger dark daughter day dead deal death
    decide deep degree depend describe desert design detail develop die difference direct discover discuss divide do
    doctor dog door double down draw dream dress drink drive drop dry during each ear early earth east eat edge effect
    egg eight either electric else end enemy energy engine enough enter equal even evening event ever every example
    except excite exercise expect experience explain eye face fact fall family famous far farm fast father fear feel
    few field fight figure fill final find fine finger finish fire first fish five flat floor flow flower fly follow
    food foot for force forest form forward four free fresh friend from front fruit full game garden gas gather gave
    general gentle get girl give glass go gold good govern grand grass gray great green ground group grow guess guide
    gun hair half hand happen happy hard hat have head hear heart heat heavy help her here high hill his history hit
    hold hole home hope horse hot hour house how human hundred hunt hurry ice idea if imagine in inch include industry
    insect instant instrument interest invent iron island job join joy jump just keep key kill kind king knew know lady
    lake land language large last late laugh law lay lead learn least leave left leg length less let letter level life
    lift light like line list listen little live local long look lost loud love low machine made mail main make man
    many map mark market master match material matter may mean measure meat meet member metal method middle might mile
    milk million mind mine minute miss mix modern moment money month moon more morning most mother motion mount mountain
    mouth move much music must name nation natural nature near neck need never new next night nine noise none noon north
    nose note nothing notice now number object observe occur ocean of off offer office often oil old on once one only
    open operate opposite orange order organ original other our out over own oxygen page paint pair paper parent part
    party pass past path pattern pay people perhaps period person phrase pick picture piece place plain plan plane
    planet plant play please point poor port pose position possible post pound power practice present press pretty print
    problem process produce product proper protect prove provide pull push put question quick quiet quite race radio
    rail rain raise range rather reach read ready real reason receive record red region remember repeat reply represent
    require rest result rich ride right ring rise river road rock roll room root rose round row rub rule run safe sail
    salt same sand save say scale school science score sea search season seat second section see seed seem select self
    sell send sense sentence separate serve set settle seven several shall shape share sharp sheet shell ship shoe shop
    shore short should shoulder shout show side sight sign silent silver similar simple since sing single sister sit six
    size skill skin sky sleep slip slow small smell smile snow so soft soil soldier some son song soon sound south space
    speak special speech speed spell spend spoke spot spread spring square stand star start state station stay steam
    steel step stick still stone stop store story straight strange stream street stretch string strong student study
    subject success such sudden sugar suggest suit summer sun supply support sure surface surprise swim symbol system
    table tail take talk tall teach team tell ten term test than thank that the their them then there these they thick
    thin thing think third this those though thought thousand three through throw thus tie time tiny to together tone
    too tool top total touch toward town track trade train travel tree triangle trip trouble truck true try tube turn
    twenty two type under unit until up use usual valley value very view village visit voice wait walk wall want war
    warm wash watch water wave way we wear weather week weight well west what wheel when where whether which while white
    who whole whose why wide wife wild will wind window wing winter wire wish with woman wonder wood word work world
    would write wrong yard year yellow yes yet you young your
    """
WORDS = tuple(_LISTED.split())
