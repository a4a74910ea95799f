// A secret that a program prints, such as the command line of a vault. Nothing that the program writes is in a message: its
// error output may quote the secret too.
import type { ExecFileException } from 'node:child_process'
import type { SecretCommand } from '../plugin/plugin.js'
import { KeyError } from './key-error.js'

/** Callers that retry at once must not start a process each. */
const minIntervalMs = 1000

export interface SecretCommandOptions {
  /** For messages. */
  readonly name: string
  readonly command: SecretCommand
  /** Where it runs. */
  readonly cwd: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** Monotonic time in milliseconds. */
  readonly now: () => number
}

/** Runs the program if its last secret is too old; concurrent reads share a run. */
export class CommandSecret {
  #options: SecretCommandOptions
  #last: { readonly secret: Promise<string>; readonly startedAt: number; isPending: boolean } | undefined
  #isRefused = false

  constructor(options: SecretCommandOptions) {
    this.#options = options
  }

  /** The secret without white space around it. Rejects with `KeyError`. */
  read(maxBytes: number): Promise<string> {
    const { command, now } = this.#options
    const last = this.#last
    const age = last === undefined ? Number.POSITIVE_INFINITY : now() - last.startedAt
    const keepMs = this.#isRefused ? minIntervalMs : Math.max(command.cache_ms, minIntervalMs)
    if (last !== undefined && (last.isPending || age < keepMs)) return last.secret
    const started = { secret: this.#run(maxBytes), startedAt: now(), isPending: true }
    this.#last = started
    this.#isRefused = false
    started.secret
      .catch(() => {
        this.#isRefused = true
      })
      .finally(() => {
        started.isPending = false
      })
    return started.secret
  }

  /** The secret was refused where it was used: the program runs again, at most once a second. */
  refuse(): void {
    this.#isRefused = true
  }

  async #run(maxBytes: number): Promise<string> {
    const { execFile } = await import('node:child_process')
    const { name, command, cwd, env } = this.#options
    const { command: program, args, timeout_ms: timeout } = command
    const fail = (reason: string) =>
      new KeyError('key_unreadable', `the command of secrets.${name} ${reason}`)
    return new Promise((resolve, reject) => {
      const options = {
        cwd,
        env: { ...env },
        timeout,
        killSignal: 'SIGKILL' as const,
        maxBuffer: maxBytes + 1,
        encoding: 'buffer' as const,
        windowsHide: true,
      }
      const child = execFile(program, args, options, (error, stdout) => {
        if (error !== null) return reject(fail(reasonOf(error, options)))
        const text = decode(stdout)
        if (text === undefined) return reject(fail('printed something that is not UTF-8 text'))
        if (text === '') return reject(fail('printed nothing'))
        if (stdout.length > maxBytes) return reject(fail(`printed more than ${maxBytes} bytes`))
        resolve(text)
      })
      // A program that asks a question must get an end of input, not wait for its time limit.
      child.stdin?.end()
    })
  }
}

function reasonOf(
  error: ExecFileException,
  { timeout, maxBuffer }: { timeout: number; maxBuffer: number },
): string {
  if (error.code === 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER') return `printed more than ${maxBuffer - 1} bytes`
  if (error.killed === true) return `did not end within ${timeout} ms`
  if (typeof error.code === 'number') return `ended with exit code ${error.code}`
  if (typeof error.code === 'string') return `cannot be started (${error.code})`
  return `was ended by ${String(error.signal)}`
}

function decode(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes).trim()
  } catch (error) {
    if (error instanceof TypeError) return undefined
    throw error
  }
}
