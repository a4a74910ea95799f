// Output of commands, passed in so that tests can read it. All output of a command goes through it and contains nothing
// that controls a terminal.
import { visible } from '@svc/core/json'

/** The environment variables of a command. */
export type Environment = Readonly<Record<string, string | undefined>>

export interface CliIo {
  /**
   * Waits while the reader is slow.
   *
   * @param isFile - Set for bytes whose hash must not change, such as a proof: they are changed only on a terminal.
   */
  out(text: string, isFile?: true): Promise<void>
  err(text: string): void
  exit(code: number): void
  /** The width of the terminal; absent if the output is not a terminal. */
  readonly columns?: number
  /** Replaces the line shown before; absent if the output is not a terminal. */
  progress?(line: string): void
}

interface Streams {
  readonly stdout: { readonly isTTY?: boolean; readonly columns?: number; write(text: string): Promise<void> }
  readonly stderr: { readonly isTTY?: boolean; write(text: string): void }
  exit(code: number): void
}

export function ioOf({ stdout, stderr, exit }: Streams): CliIo {
  return {
    out: (text, isFile) => stdout.write(isFile === true && stdout.isTTY !== true ? text : visible(text)),
    err: (text) => stderr.write(visible(text)),
    exit,
    ...(stdout.columns === undefined ? {} : { columns: stdout.columns }),
    ...(stderr.isTTY === true
      ? { progress: (line: string) => stderr.write(`\r${visible(line)}\x1b[K`) }
      : {}),
  }
}

let guarded = false

/** Standard output and error of this process. If its reader closes the pipe (`| head`), the process ends without an error. */
export function processIo(): CliIo {
  if (!guarded) {
    guarded = true
    process.stdout.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error
      process.exit()
    })
  }
  return ioOf({
    stdout: {
      isTTY: process.stdout.isTTY,
      columns: process.stdout.columns,
      write: (text) =>
        new Promise((resolve) => {
          if (process.stdout.write(text)) resolve()
          else process.stdout.once('drain', resolve)
        }),
    },
    stderr: {
      isTTY: process.stderr.isTTY,
      write: (text) => {
        process.stderr.write(text)
      },
    },
    exit: (code) => {
      process.exitCode = code
    },
  })
}
