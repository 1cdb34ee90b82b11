"""What a shift is paid."""

import unittest

from rota.pay import paid


class Pay(unittest.TestCase):
    """Shifts by day and by night."""

    def test_a_day_shift_is_paid_by_the_hour(self) -> None:
        self.assertEqual(paid("08:00", "16:30", 1800), 15300)

    def test_a_night_shift_ends_on_the_next_day(self) -> None:
        self.assertEqual(paid("22:00", "06:00", 1800), 14400)


if __name__ == "__main__":
    unittest.main()
