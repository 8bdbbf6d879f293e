package InteropValues;

/** JacORB finds the class of a value by this name. */
public class PricedImpl extends Priced {
    /** A sum for an item. */
    public static PricedImpl of(String currency, long cents, String item) {
        PricedImpl made = new PricedImpl();
        made.currency = currency;
        made.cents = cents;
        made.item = item;
        return made;
    }
}
