// Output of commands, passed in so that tests can read it. All output of a command goes through it and contains nothing
// that controls a terminal.
import { defined, visible, visibleInLine } from '@svc/core/json'

const styles = { bold: [1, 22], dim: [2, 22], red: [31, 39], green: [32, 39], yellow: [33, 39] } as const

/** A part of a line at a terminal. */
export interface StyledText {
  readonly text: string
  readonly style?: keyof typeof styles | undefined
}

/** Writes one line, at once. */
export type WriteLine = (...pieces: readonly StyledText[]) => void

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
  /** Writes lines for a person; absent if standard output is not a terminal. */
  readonly outLine?: WriteLine
  /** The same for standard error. */
  readonly errLine?: WriteLine
  /** Replaces the line shown before; absent if the output is not a terminal. */
  progress?(line: string): void
}

interface Terminal {
  readonly isTTY?: boolean
  readonly hasColors?: boolean
}

interface Streams {
  readonly stdout: Terminal & { readonly columns?: number; write(text: string): Promise<void> }
  readonly stderr: Terminal & { write(text: string): void }
  exit(code: number): void
}

export function ioOf({ stdout, stderr, exit }: Streams): CliIo {
  return {
    out: (text, isFile) => stdout.write(isFile === true && stdout.isTTY !== true ? text : visible(text)),
    err: (text) => stderr.write(visible(text)),
    exit,
    ...defined({ columns: stdout.columns }),
    ...(stdout.isTTY === true ? { outLine: lineWriter(stdout) } : {}),
    ...(stderr.isTTY === true ? { errLine: lineWriter(stderr) } : {}),
    ...(stderr.isTTY === true
      ? { progress: (line: string) => stderr.write(`\r${visible(line)}\x1b[K`) }
      : {}),
  }
}

function lineWriter({ hasColors = false, write }: Streams['stdout'] | Streams['stderr']): WriteLine {
  return (...pieces) => {
    const line = pieces.map(({ text, style }) => {
      const shown = visibleInLine(text)
      if (shown === '') return shown
      const [on, off] = (hasColors && style !== undefined && styles[style]) || []
      return on === undefined ? shown : `\x1b[${on}m${shown}\x1b[${off}m`
    })
    void write(`${line.join('')}\n`)
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
      hasColors: process.stdout.isTTY && process.stdout.hasColors(),
      write: (text) =>
        new Promise((resolve) => {
          if (process.stdout.write(text)) resolve()
          else process.stdout.once('drain', resolve)
        }),
    },
    stderr: {
      isTTY: process.stderr.isTTY,
      hasColors: process.stderr.isTTY && process.stderr.hasColors(),
      write: (text) => {
        process.stderr.write(text)
      },
    },
    exit: (code) => {
      process.exitCode = code
    },
  })
}
