from t2t_repro.files import appearing


def test_what_is_there_comes_by_step_and_what_is_new_as_it_appears(make_clock):
    there = {30: "c", 10: "a", 20: "b"}
    clock = make_clock(lambda naps: there.update({40: "d", 5: "old"}) if naps == 2 else None)
    found = appearing(lambda: there, min_steps=15, wait_minutes=0.5, clock=clock)
    assert [next(found), next(found), next(found)] == ["b", "c", "d"]
    clock.now += 1000  # what the caller takes for an item does not count
    assert list(found) == []
    assert clock.naps == 2 + 3


def test_it_is_looked_for_anew_after_each(make_clock):
    there = {1: "a", 2: "b"}
    found = appearing(lambda: dict(there), clock=make_clock())
    assert next(found) == "a"
    del there[2]
    assert list(found) == []


def test_the_wait_may_count_from_the_time_of_an_item(make_clock):
    clock = make_clock()
    assert list(appearing(lambda: {1: 45.0}, wait_minutes=1, since=float, clock=clock)) == [45.0]
    assert clock.now == 110
