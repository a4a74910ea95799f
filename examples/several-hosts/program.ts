// A program of the example: started and ended as an operator would, its output kept in a file.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync } from 'node:fs'
import { delimiter } from 'node:path'

export interface ProgramOptions {
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
  readonly cwd: string
  readonly env?: Readonly<Record<string, string>>
  /** Printed when it serves; a URL if it prints nothing. */
  readonly ready: RegExp | string
  /** The file of its output. */
  readonly output: string
  /** Called with each child process. */
  readonly onSpawn: (child: ChildProcess) => void
}

/** Milliseconds within which it has to be ready. */
const patience = 60_000

export class Program {
  readonly #options: ProgramOptions
  #child: ChildProcess | undefined

  constructor(options: ProgramOptions) {
    this.#options = options
  }

  get name(): string {
    return this.#options.name
  }

  /** Undefined if it does not run. */
  get pid(): number | undefined {
    return this.#child?.pid
  }

  /** Resolves when it serves. Rejects, with its last output, if it ends before. */
  async start(): Promise<void> {
    const { name, command, args, cwd, env, ready, output, onSpawn } = this.#options
    // Debian installs HAProxy where only the superuser looks for it.
    const PATH = `${process.env['PATH']}${delimiter}/usr/sbin`
    // Ctrl-C at a terminal reaches only the program that ends the others in their order.
    const child = spawn(command, args, { cwd, env: { ...process.env, PATH, ...env }, detached: true })
    onSpawn(child)
    this.#child = child
    let printed = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (piece: Buffer) => {
        appendFileSync(output, piece)
        printed = (printed + piece).slice(-10_000)
      })
    }
    const isReady = typeof ready === 'string' ? responds(ready, child) : this.prints(ready)
    const ended = new Promise<never>((_resolve, reject) => {
      child.once('exit', (code) => {
        if (this.#child === child) this.#child = undefined
        reject(new Error(`${name} ended with ${code}: ${printed}`))
      })
      child.once('error', ({ message }) => {
        reject(
          new Error(`${name} did not start: ${message}; on Debian: apt-get install haproxy redis-server`),
        )
      })
    })
    // It may also end later, when nobody waits for it to be ready.
    ended.catch(() => undefined)
    await Promise.race([isReady, ended])
  }

  /** Resolves when it has printed this, from now on. */
  prints(what: RegExp): Promise<void> {
    const child = this.#child
    if (child === undefined) return Promise.reject(new Error(`${this.name} does not run`))
    return new Promise((resolve, reject) => {
      let printed = ''
      const end = (settle: () => void) => {
        clearTimeout(timer)
        child.off('exit', stop)
        child.stdout?.off('data', read)
        settle()
      }
      const read = (piece: Buffer) => {
        printed = (printed + piece).slice(-10_000)
        if (what.test(printed)) end(resolve)
      }
      const timer = setTimeout(
        () => end(() => reject(new Error(`${this.name} did not print ${what}: ${printed}`))),
        patience,
      )
      const stop = () => clearTimeout(timer)
      child.once('exit', stop)
      child.stdout?.on('data', read)
    })
  }

  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal)
  }

  /** Resolves when it has ended. */
  async end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill(signal)
    await ended
  }

  /** Called when it ends. */
  onEnd(listener: () => void): void {
    this.#child?.once('exit', listener)
  }
}

async function responds(url: string, child: ChildProcess): Promise<void> {
  const giveUp = performance.now() + patience
  while (performance.now() < giveUp && child.exitCode === null) {
    const [result] = await Promise.allSettled([fetch(url)])
    if (result?.status === 'fulfilled' && result.value.ok) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error(`${url} does not respond`)
}
