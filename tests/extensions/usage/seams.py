"""What usages add to tests of the core."""

WORDS = {"usage": ((), "usage models.toml --virtual-clock --workers 1 -q --seed 5")}
FILES = {
    "models.toml": '[usage]\ntitle = "a test"\nsource = "a test"\nduration_s = 1\n'
    '[eyes]\nsource = "stand_in"\nwidths = [8, 8]\nrate = 20\ndeadline_ms = 60000\n',
}
STAND_INS = {"harness.extensions.usage.crew:Crew": "scripted_crew:ScriptedCrew"}
