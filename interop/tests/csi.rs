//! User names and passwords over TLS (CSIv2, GSSUP) with JacORB, in both directions.
//!
//! Where JacORB is not built (`interop/setup.sh jacorb`), the tests say so.

use isorb::{Config, Kind, Orb, Reference, Result, Upcall};
use isorb_csi::{ClientSecurity, Credentials, ServerSecurity};
use isorb_interop::generated::interop::{Thing, ThingRef};
use isorb_tls::testing::Authority;
use isorb_tls::{Tls, TlsConfig};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn jacorb() -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let build = std::env::var_os("ISORB_INTEROP_BUILD").map_or(here.join(".build"), PathBuf::from);
    let program = build.join("jacorb").join("csi");
    if !program.exists() {
        println!("SKIPPED: jacorb is not built; run interop/setup.sh jacorb");
        return None;
    }
    Some(program)
}

/// A folder with certificates, as the peers want it.
fn certificates(name: &str) -> Authority {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("csi-{name}-{}", std::process::id()));
    let authority = Authority::at(&folder).unwrap();
    authority.sign("peer").unwrap();
    authority
}

fn tls(authority: &Authority) -> Arc<Tls> {
    let file = |name: &str| authority.folder().join(name);
    Arc::new(Tls::new(TlsConfig::new(file("peer.pem"), file("peer.key"), file("authority.pem"))).unwrap())
}

/// Its id is the user.
struct Named;

impl Thing for Named {
    fn id<'u>(&'u self, cx: Upcall<'u>) -> Result<&'u str> {
        Ok(cx.caller().principal().map_or("anonymous", |principal| &principal.name))
    }
    fn add(&self, _: Upcall<'_>, amount: i32) -> Result<i64> {
        Ok(amount.into())
    }
    fn destroy(&self, _: Upcall<'_>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_client_of_jacorb_is_known_by_its_user_name() {
    let Some(program) = jacorb() else { return };
    let authority = certificates("server");
    let check = |user: &str, password: &[u8]| (user, password) == ("ada", b"engine");
    let config = Config { endpoints: vec!["giop:ssl:127.0.0.1:0".into()], ..Config::default() };
    let orb = Orb::builder()
        .config(config)
        .register(|info| {
            info.add_transport(tls(&authority)).unwrap();
            ServerSecurity::new(check).target("plant").register(info).unwrap();
            Ok(())
        })
        .build()
        .unwrap();
    let root = orb.root_poa().unwrap();
    let who: ThingRef = root.activate(Arc::new(Named)).unwrap();
    root.manager().activate().unwrap();
    let call = |user: &str, password: &str| {
        let mut client = Command::new(&program);
        client.arg("client").arg(authority.folder()).arg(who.object().to_string());
        let ended = client.args([user, password]).output().unwrap();
        let error = String::from_utf8_lossy(&ended.stderr).into_owned();
        (String::from_utf8_lossy(&ended.stdout).replace("\r\n", "\n"), error)
    };
    // A long password makes a token with a length in JacORB's own form.
    let long = "x".repeat(150);
    for (user, password, expected) in [
        ("ada", "engine", "user ada\n"),
        ("ada", "steam", "NO_PERMISSION 1\n"),
        ("eve", "engine", "NO_PERMISSION 1\n"),
        ("ada", &long, "NO_PERMISSION 1\n"),
    ] {
        let (output, error) = call(user, password);
        assert_eq!(output, expected.repeat(2), "{user}: {error}");
    }
    orb.shutdown(true).unwrap();
}

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_of_jacorb_takes_the_password_of_a_client() {
    let Some(program) = jacorb() else { return };
    let authority = certificates("client");
    let file = authority.folder().join("csi.ior");
    let _ = std::fs::remove_file(&file);
    let mut server = Command::new(&program);
    server.arg("server").arg(authority.folder()).arg(&file).stdout(Stdio::null());
    let mut server = Running(server.spawn().unwrap());
    let began = Instant::now();
    let reference = loop {
        if let Ok(reference) = std::fs::read_to_string(&file) {
            break reference;
        }
        assert_eq!(server.0.try_wait().unwrap(), None, "the server has ended");
        assert!(began.elapsed() < Duration::from_secs(300), "the server wrote no reference");
        std::thread::sleep(Duration::from_millis(50));
    };
    let call = |credentials: Option<Credentials>| {
        let client = Orb::builder()
            .register(|info| {
                info.add_transport(tls(&authority)).unwrap();
                if let Some(credentials) = credentials {
                    ClientSecurity::new(credentials).register(info).unwrap();
                }
                Ok(())
            })
            .build()
            .unwrap();
        let who: ThingRef = client.resolve(&reference).unwrap();
        let first = who.id();
        // The second call has the context of the first.
        assert_eq!(who.id().map_err(|error| error.kind), first.clone().map_err(|error| error.kind));
        first.map_err(|error| error.kind)
    };
    assert_eq!(call(Some(Credentials::new("ada", "engine"))), Ok("ada".to_owned()));
    assert_eq!(call(Some(Credentials::new("ada", "steam"))), Err(Kind::NoPermission));
    assert_eq!(call(None), Err(Kind::NoPermission));
}
