//! The whole control room, as processes.

#[test]
fn ten_displays_come_through_a_restart() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_isorb-example-plant")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.lines().filter(|line| line.contains(" images, ")).count(), 10, "{text}");
}
