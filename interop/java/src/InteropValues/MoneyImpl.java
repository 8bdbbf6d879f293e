package InteropValues;

/** JacORB finds the class of a value by this name. */
public class MoneyImpl extends Money {
    /** A sum. */
    public static MoneyImpl of(String currency, long cents) {
        MoneyImpl made = new MoneyImpl();
        made.currency = currency;
        made.cents = cents;
        return made;
    }

    /** The private state. */
    public long amount() {
        return cents;
    }
}
