// `svc gateway` as a process, for tests of its life cycle.
import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { endWithRunner } from './child-lifetime.js'
import { sharingRuntime } from './runtimes.js'
import { svc } from './svc.js'

interface Line {
  readonly msg: string
  readonly url?: string
  readonly adminUrl?: string
  readonly endpoints?: Record<string, string>
  readonly log?: string
  readonly worker?: number
  readonly pid?: number
  readonly reason?: string
  readonly signal?: string
  readonly isHung?: true
}

/** Its log is read line by line; killed when disposed of, unless it has ended. */
export class Running implements AsyncDisposable {
  readonly child: ChildProcess
  readonly exit: Promise<number | null>
  /** Every line of the log that was read. */
  readonly lines: Line[] = []
  stderr = ''
  #lines: AsyncIterator<string>

  /** `env` beside the test's own. `program` is the command, with the flags of Node before it; `node` runs it. */
  constructor(
    args: string[],
    env: Readonly<Record<string, string>> = {},
    program: readonly string[] = [svc],
    node = process.execPath,
  ) {
    this.child = endWithRunner(
      spawn(node, [...program, 'gateway', ...args], {
        stdio: ['ignore', 'pipe', 'pipe'],
        env: { ...process.env, ...env },
      }),
    )
    this.exit = new Promise((resolve) => this.child.once('exit', resolve))
    this.child.stderr?.on('data', (piece: Buffer) => {
      this.stderr += piece.toString()
    })
    if (this.child.stdout === null) throw new Error('no stdout')
    this.#lines = createInterface(this.child.stdout)[Symbol.asyncIterator]()
  }

  /** The next log line that says `msg`. */
  async line(msg: string): Promise<Line> {
    for (;;) {
      const line = await this.#next()
      if (line === undefined) throw new Error(`the log ended before "${msg}": ${this.stderr}`)
      if (line.msg === msg) return line
    }
  }

  /** Reads the log to its end. */
  async allLines(): Promise<readonly Line[]> {
    while ((await this.#next()) !== undefined);
    return this.lines
  }

  async #next(): Promise<Line | undefined> {
    const { value, done } = await this.#lines.next()
    if (done === true) return undefined
    const line = JSON.parse(value) as Line
    this.lines.push(line)
    return line
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.child.exitCode === null) this.child.kill('SIGKILL')
    await this.exit
  }
}

/** A gateway of two workers, on a version of Node that has them. */
export function startWorkers(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  { node } = sharingRuntime(),
): Running {
  return new Running([...args, '--workers', '2'], env, [svc], node)
}
