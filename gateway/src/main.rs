//! The `cellgate` command.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    cellgate::cli::run().await
}
