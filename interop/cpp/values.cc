// Values of ../idl/values.idl: `values server` prints READY with the references of Boxes and of
// Values and ends with stdin; `values client BOXES VALUES` calls them and prints a line for
// each case, and the counts; `values time VALUES CALLS` prints the median time of a call with a
// tree.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "values.hh"

namespace {

using namespace InteropValues;

struct Failure {
  std::string reason;
};

// With `create`, so the program makes the class.
struct MoneyImpl : virtual OBV_InteropValues::Money, virtual CORBA::DefaultValueRefCountBase {
  MoneyImpl() {}
  MoneyImpl(const char* c, CORBA::LongLong n) : OBV_InteropValues::Money(c, n) {}
  CORBA::LongLong amount() const { return cents(); }
};
struct PricedImpl : virtual OBV_InteropValues::Priced, virtual CORBA::DefaultValueRefCountBase {
  PricedImpl() {}
  PricedImpl(const char* c, CORBA::LongLong n, const char* i) {
    currency(c);
    cents(n);
    item(i);
  }
  CORBA::LongLong amount() const { return cents(); }
};
struct NodeImpl : virtual OBV_InteropValues::Node, virtual CORBA::DefaultValueRefCountBase {
  NodeImpl() {}
  NodeImpl(CORBA::Long n, InteropValues::Node* after) {
    value(n);
    next(after);
  }
};
struct LeafImpl : virtual OBV_InteropValues::Leaf, virtual CORBA::DefaultValueRefCountBase {
  LeafImpl() {}
  LeafImpl(CORBA::Long n, const char* l) {
    value(n);
    label(l);
  }
};
struct BranchImpl : virtual OBV_InteropValues::Branch, virtual CORBA::DefaultValueRefCountBase {
  BranchImpl() {}
  explicit BranchImpl(CORBA::Long n) { value(n); }
};
struct SquareImpl : virtual OBV_InteropValues::Square, virtual CORBA::DefaultValueRefCountBase {
  SquareImpl() {}
  explicit SquareImpl(CORBA::Double s) { side(s); }
  CORBA::Double area() override { return side() * side(); }
};

template <class Impl>
struct FactoryOf : CORBA::ValueFactoryBase {
  CORBA::ValueBase* create_for_unmarshal() override { return new Impl; }
};

template <class Impl>
void make_known(CORBA::ORB_ptr orb, const char* id) {
  CORBA::ValueFactoryBase_var factory = new FactoryOf<Impl>;
  CORBA::ValueFactoryBase_var before = orb->register_value_factory(id, factory);
}

// A value as another owner of it, as results and out arguments need one.
template <class T>
T* owner(T* value) {
  CORBA::add_ref(value);
  return value;
}

// Result a, c the old b, b becomes a.
template <class T>
T* echo(T* a, T*& b, T*& c) {
  c = b;
  b = owner(a);
  return owner(a);
}

// A tree of `width` branches with `leaves` each.
Branch* tree(CORBA::Long width, CORBA::Long leaves) {
  Branch* root = new BranchImpl(0);
  root->parts().length(width);
  for (CORBA::Long i = 0; i < width; i++) {
    Branch* branch = new BranchImpl(i);
    branch->parts().length(leaves);
    for (CORBA::Long k = 0; k < leaves; k++) branch->parts()[k] = new BranchImpl(k);
    root->parts()[i] = branch;
  }
  return root;
}

unsigned size_of(Branch* root) {
  unsigned size = 1;
  for (CORBA::ULong i = 0; i < root->parts().length(); i++) size += size_of(root->parts()[i]);
  return size;
}

unsigned length_of(Node* head) {
  std::set<Node*> seen;
  for (Node* at = head; at && seen.insert(at).second;) at = at->next();
  return seen.size();
}

struct BoxesServant : POA_InteropValues::Boxes {
  Text* echo_text(Text* a, Text*& b, Text_out c) override { return echo<Text>(a, b, c.ptr()); }
  Number* echo_number(Number* a, Number*& b, Number_out c) override { return echo<Number>(a, b, c.ptr()); }
  Blob* echo_blob(Blob* a, Blob*& b, Blob_out c) override { return echo<Blob>(a, b, c.ptr()); }
};

struct ValuesServant : POA_InteropValues::Values {
  Money* echo_money(Money* a, Money*& b, Money_out c) override { return echo<Money>(a, b, c.ptr()); }
  Node* echo_node(Node* a, Node*& b, Node_out c) override { return echo<Node>(a, b, c.ptr()); }
  InteropValues::Shape* echo_shape(InteropValues::Shape* a, InteropValues::Shape*& b, Shape_out c) override {
    return echo<InteropValues::Shape>(a, b, c.ptr());
  }
  CORBA::ValueBase* echo_base(CORBA::ValueBase* a, CORBA::ValueBase*& b, CORBA::ValueBase_out c) override {
    return echo<CORBA::ValueBase>(a, b, c.ptr());
  }
  Branch* give_back(Branch* root) override { return owner(root); }
  CORBA::Boolean same(Node* a, Node* b) override { return a == b; }
  CORBA::ULong length(Node* head) override { return length_of(head); }
  Money* priced(CORBA::Boolean) override { return new PricedImpl("EUR", 199, "tea"); }
};

int serve(CORBA::ORB_ptr orb) {
  CORBA::Object_var object = orb->resolve_initial_references("RootPOA");
  PortableServer::POA_var poa = PortableServer::POA::_narrow(object);
  PortableServer::POAManager_var manager = poa->the_POAManager();
  manager->activate();
  Boxes_var boxes = (new BoxesServant)->_this();
  Values_var values = (new ValuesServant)->_this();
  CORBA::String_var first = orb->object_to_string(boxes), second = orb->object_to_string(values);
  std::cout << "READY " << first << ' ' << second << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
  }
  return 0;
}

void require(bool so, const char* what) {
  if (!so) throw Failure{what};
}

void boxed_values(Boxes_ptr boxes) {
  Text_var a = new Text("a"), b = new Text("b"), c, result;
  result = boxes->echo_text(a, b.inout(), c.out());
  require(!strcmp(result->_value(), "a") && !strcmp(c->_value(), "b"), "texts");
  require(result.in() == b.in(), "result and b are one text");
  Number_var n = new Number(7), none, old, got;
  got = boxes->echo_number(n, none.inout(), old.out());
  require(got->_value() == 7 && !old.in(), "numbers");
  Octets data;
  data.length(5000);
  for (CORBA::ULong i = 0; i < data.length(); i++) data[i] = i % 251;
  Blob_var blob = new Blob(data), blob_b, blob_c, blob_result;
  blob_result = boxes->echo_blob(blob, blob_b.inout(), blob_c.out());
  require(blob_result->_value().length() == 5000 && blob_result->_value()[4999] == 4999 % 251, "octets");
}

void values(Values_ptr values) {
  Money_var a = new MoneyImpl("EUR", 250), b = new PricedImpl("USD", -1, "cup"), c, result;
  result = values->echo_money(a, b.inout(), c.out());
  require(!strcmp(result->currency(), "EUR") && dynamic_cast<MoneyImpl&>(*result).amount() == 250, "money");
  Priced* priced = Priced::_downcast(c);
  require(priced && !strcmp(priced->item(), "cup") && !strcmp(c->currency(), "USD"), "a derived value");

  Node_var ring = new NodeImpl(1, 0);
  Node_var second = new NodeImpl(2, ring), third = new LeafImpl(3, "leaf");
  third->next(second);
  ring->next(third);
  require(values->length(ring) == 3, "a ring has three nodes");
  require(values->same(ring, ring) && !values->same(ring, second), "one node and two");
  Node_var old, got, null;
  got = values->echo_node(ring, null.inout(), old.out());
  require(!old.in() && length_of(got) == 3 && got->next()->next()->next() == got.in(), "a ring comes back");
  Leaf* leaf = Leaf::_downcast(got->next());
  require(leaf && leaf->value() == 3 && !strcmp(leaf->label(), "leaf"), "with its leaf");
  ring->next(0);
  got->next(0);

  InteropValues::Shape_var shape = new SquareImpl(3), shape_b, shape_c, shape_result;
  shape_result = values->echo_shape(shape, shape_b.inout(), shape_c.out());
  require(shape_result->area() == 9, "a square");

  CORBA::ValueBase_var base = new LeafImpl(4, "base"), base_b = new Text("t"), base_c, base_result;
  base_result = values->echo_base(base, base_b.inout(), base_c.out());
  require(Leaf::_downcast(base_result) && Text::_downcast(base_c), "values of any type");

  Money_var tea = values->priced(true);
  require(!strcmp(tea->currency(), "EUR") && Priced::_downcast(tea), "a known type");
}

// Whether omniORB cuts off what it does not know: the factory of Priced is gone.
void truncated(CORBA::ORB_ptr orb, Values_ptr values) {
  orb->unregister_value_factory("IDL:InteropValues/Priced:1.0");
  Money_var tea = values->priced(false);
  require(!strcmp(tea->currency(), "EUR") && !Priced::_downcast(tea), "cut off to Money");
}

// Prints the median time in microseconds of calls that send and return a tree of 10,000 values.
int time_graph(CORBA::ORB_ptr orb, const char* reference, int calls) {
  CORBA::Object_var object = orb->string_to_object(reference);
  Values_var values = Values::_narrow(object);
  Branch_var root = tree(99, 100);
  std::vector<double> times;
  for (int i = 0; i < calls; i++) {
    auto start = std::chrono::steady_clock::now();
    {
      Branch_var back = values->give_back(root);
      if (i == 0 && size_of(back) != 10000) return 1;
    }
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  std::cout << times[times.size() / 2] << std::endl;
  return 0;
}

int failures = 0;

template <class F>
void run(const char* name, F test) {
  try {
    test();
    std::cout << "ok " << name << std::endl;
    return;
  } catch (const Failure& failure) {
    std::cout << "FAIL " << name << ' ' << failure.reason << std::endl;
  } catch (const CORBA::SystemException& e) {
    std::cout << "FAIL " << name << ' ' << e._name() << ' ' << e.minor() << std::endl;
  }
  failures++;
}

}  // namespace

int main(int argc, char** argv) {
  CORBA::ORB_var orb = CORBA::ORB_init(argc, argv);
  make_known<MoneyImpl>(orb, "IDL:InteropValues/Money:1.0");
  make_known<PricedImpl>(orb, "IDL:InteropValues/Priced:1.0");
  make_known<NodeImpl>(orb, "IDL:InteropValues/Node:1.0");
  make_known<LeafImpl>(orb, "IDL:InteropValues/Leaf:1.0");
  make_known<BranchImpl>(orb, "IDL:InteropValues/Branch:1.0");
  make_known<SquareImpl>(orb, "IDL:InteropValues/Square:1.0");
  if (argc == 2 && !strcmp(argv[1], "server")) return serve(orb);
  if (argc == 4 && !strcmp(argv[1], "time")) return time_graph(orb, argv[2], atoi(argv[3]));
  if (argc != 4 || strcmp(argv[1], "client")) return 2;
  CORBA::Object_var first = orb->string_to_object(argv[2]), second = orb->string_to_object(argv[3]);
  Boxes_var boxes = Boxes::_narrow(first);
  Values_var them = Values::_narrow(second);
  run("boxed_values", [&] { boxed_values(boxes); });
  run("values", [&] { values(them); });
  run("truncated", [&] { truncated(orb, them); });
  std::cout << "done " << 3 - failures << " ok " << failures << " failed 0 skipped" << std::endl;
  return failures ? 1 : 0;
}
