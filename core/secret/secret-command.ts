// A secret that a program prints, such as the command line of a vault. Nothing that the program writes is in a message: its
// error output may quote the secret too.
import type { ChildProcess } from 'node:child_process'
import type { SecretCommand } from '../plugin/plugin.js'
import { KeyError } from './key-error.js'

/** Callers that retry at once must not start a process each. */
const minIntervalMs = 1000

export interface SecretCommandOptions {
  /** The name of the command in messages. */
  readonly name: string
  readonly command: SecretCommand
  /** The directory in which it runs. */
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
    const { spawn } = process.getBuiltinModule('node:child_process')
    const { name, command, cwd, env } = this.#options
    const { command: program, args, timeout_ms: timeout } = command
    const fail = (reason: string) =>
      new KeyError('key_unreadable', `the command of secrets.${name} ${reason}`)
    return new Promise((resolve, reject) => {
      // A program that asks a question must get an end of input, not wait for its time limit.
      const child = spawn(program, args, {
        cwd,
        env: { ...env },
        stdio: ['ignore', 'pipe', 'ignore'],
        detached: hasGroups,
        windowsHide: true,
      })
      const chunks: Buffer[] = []
      let size = 0
      const stop = (reason: string) => {
        reject(fail(reason))
        clearTimeout(timer)
        killWithDescendants(child)
        child.stdout.destroy()
      }
      const timer = setTimeout(() => stop(`did not end within ${timeout} ms`), timeout)
      child.stdout.on('data', (chunk: Buffer) => {
        size += chunk.length
        if (size > maxBytes) stop(`printed more than ${maxBytes} bytes`)
        else chunks.push(chunk)
      })
      child.once('error', (error: NodeJS.ErrnoException) => {
        clearTimeout(timer)
        reject(fail(`cannot be started (${error.code})`))
      })
      child.once('close', (code, signal) => {
        clearTimeout(timer)
        if (signal !== null) return reject(fail(`was ended by ${signal}`))
        if (code !== 0) return reject(fail(`ended with exit code ${code}`))
        const text = decode(Buffer.concat(chunks))
        if (text === undefined) return reject(fail('printed something that is not UTF-8 text'))
        if (text === '') return reject(fail('printed nothing'))
        resolve(text)
      })
    })
  }
}

/** A program in a group of its own is killed with what it started, which may hold its output open. */
const hasGroups = process.platform !== 'win32'

function killWithDescendants(child: ChildProcess): void {
  if (!hasGroups || child.pid === undefined) {
    child.kill('SIGKILL')
    return
  }
  try {
    process.kill(-child.pid, 'SIGKILL')
  } catch (error) {
    // The group has ended, or what is left of it runs as another user.
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code !== 'ESRCH' && code !== 'EPERM') throw error
  }
}

function decode(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes).trim()
  } catch (error) {
    if (error instanceof TypeError) return undefined
    throw error
  }
}
