"""The servant of the tests, for isorb and for omniORBpy: the mappings of IDL are the same."""

import time


def make(radar, base=object):
    """A class that serves Radar::Sensor with the classes of `radar`."""

    class Sensor(base):
        def __init__(self):
            self.name, self.gain, self.listeners, self.noted = "front", 1.5, [], []

        # The attributes as omniORBpy calls them.
        def _get_name(self):
            return self.name

        def _get_gain(self):
            return self.gain

        def _set_gain(self, value):
            self.gain = value

        def add(self, a, b):
            if a == -1:
                raise radar.Refused("below zero", a)
            if a == -2:
                raise radar.Busy()
            return a + b

        def echo(self, it):
            return it

        echo_plot = echo_plots = echo_value = echo_tree = echo_any = echo_numbers = echo
        echo_names = echo_matrix = echo_price = echo_wide = echo_object = echo

        def split(self, text, tail):
            return len(text), text[:1], text[1:] + tail

        def subscribe(self, it):
            self.listeners.append(it)
            it.seen(radar.Plot(7, "seen", radar.Point(1.0, 2.0), radar.track, b"\x00\x01"))

        def _from(self, _yield):
            self.noted.append(f"from {_yield}")

        def note(self, text):
            self.noted.append(text)

        def notes(self):
            return ",".join(self.noted)

        def wait(self, seconds):
            time.sleep(seconds)

        def fail(self):
            raise ZeroDivisionError("a mistake of the servant")

        def octets(self, them):
            return len(them)

        def narrow_numbers(self, *_):
            return 0

    return Sensor
