package InteropValues;

/** JacORB finds the class of a value by this name. */
public class NodeImpl extends Node {}
