"""What a step costs before it is made: shapes, rates of devices, their measurement here."""
