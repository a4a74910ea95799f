// Output of commands, passed in so that tests can read it.

export interface CliIo {
  /** Waits while the reader is slow. */
  out(text: string): Promise<void>
  err(text: string): void
  exit(code: number): void
  /** Replaces the line shown before; absent where the output is no terminal. */
  progress?(line: string): void
}

let guarded = false

/** Standard output and error of this process. A reader that goes away (`| head`) ends it quietly. */
export function processIo(): CliIo {
  if (!guarded) {
    guarded = true
    process.stdout.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error
      process.exit()
    })
  }
  return {
    out: (text) =>
      new Promise((resolve) => {
        if (process.stdout.write(text)) resolve()
        else process.stdout.once('drain', resolve)
      }),
    err: (text) => {
      process.stderr.write(text)
    },
    exit: (code) => {
      process.exitCode = code
    },
    ...(process.stderr.isTTY
      ? { progress: (line: string) => void process.stderr.write(`\r${line}\x1b[K`) }
      : {}),
  }
}
