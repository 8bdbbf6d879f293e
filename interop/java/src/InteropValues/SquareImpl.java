package InteropValues;

/** JacORB finds the class of a value by this name. */
public class SquareImpl extends Square {
    public double area() {
        return side * side;
    }
}
