// Lists the naming context of a reference, and again after each line of standard input.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Properties;
import org.omg.CORBA.COMM_FAILURE;
import org.omg.CosNaming.BindingIteratorHolder;
import org.omg.CosNaming.BindingListHolder;
import org.omg.CosNaming.NamingContext;
import org.omg.CosNaming.NamingContextHelper;

public class Moved {
  // The server ended, and JacORB cannot know whether it served the request before: it leaves the choice to its
  // caller. A second request may go to the same connection, before the thread that reads from it has seen its end.
  static BindingListHolder listed(NamingContext context) throws Exception {
    for (int failures = 0; ; failures++) {
      BindingListHolder list = new BindingListHolder();
      try {
        context.list(10, list, new BindingIteratorHolder());
        return list;
      } catch (COMM_FAILURE failure) {
        if (failures == 5) {
          throw failure;
        }
        Thread.sleep(50);
      }
    }
  }

  public static void main(String[] arguments) throws Exception {
    Properties properties = new Properties();
    properties.setProperty("org.omg.CORBA.ORBClass", "org.jacorb.orb.ORB");
    properties.setProperty("org.omg.CORBA.ORBSingletonClass", "org.jacorb.orb.ORBSingleton");
    org.omg.CORBA.ORB orb = org.omg.CORBA.ORB.init(new String[0], properties);
    NamingContext context = NamingContextHelper.narrow(orb.string_to_object(arguments[0]));
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    do {
      BindingListHolder list = listed(context);
      System.out.println("called " + list.value[0].binding_name[0].id);
      System.out.flush();
    } while (input.readLine() != null);
    System.exit(0);
  }
}
