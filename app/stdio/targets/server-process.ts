// One process of a server over stdio, in a process group of its own that ends as a whole: with the process, with
// `stop()`, and with the gateway, however that ends. On Linux, what has left the group ends with it.
import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import type { Readable, Writable } from 'node:stream'
import type { MaybePromise } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { MessageRoom } from '../../budget/message-room.js'
import { lineBudget, lineCost, lineWindowMs } from '../../budget/process-budgets.js'
import { LineSplitter, LineTooLong } from './line-splitter.js'

const RUN_VARIABLE = 'SVC_STDIO_RUN'

/** How a process is started. */
export interface Launch {
  /** The absolute path of the program. */
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
}

export interface ProcessLimits {
  /** The server whose part of the budget for lines is used. */
  readonly server: string
  readonly maxLineBytes: number
  /** Time from the end of its input to SIGTERM, and from there to SIGKILL. */
  readonly stopTimeoutMs: number
}

/** Receives what a process writes. */
export interface ProcessListener {
  /** Called with a line of standard output. */
  readonly onLine: (line: string) => MaybePromise<void>
  /** Called when a line of standard output is over the limit; the process is killed. */
  readonly onLineTooLong: () => void
  /** Called with a line of standard error. */
  readonly onErrorLine: (line: string) => void
  /** Called once, when the process and its group have ended. */
  readonly onExit: (reason: string) => void
}

/**
 * A shell in the group of the server. It reads a pipe whose other end the gateway holds, and kills the group when the pipe
 * ends, which SIGKILL of the gateway causes too. Its argument marks processes outside the group; its environment lacks the
 * mark.
 */
const watcher = `
while read -r line; do :; done
kill -TERM 0; sleep 2
for file in $(grep -lsF "$1" /proc/[0-9]*/environ); do
  pid=\${file#/proc/}; kill -KILL "\${pid%/environ}"
done
kill -KILL 0
`

/** Starts the watching shell, and becomes the server. */
const script = `
( trap '' HUP INT TERM
  exec /usr/bin/env -i "PATH=$PATH:/usr/bin:/bin" /bin/sh -c "$0" svc-stdio "$${RUN_VARIABLE}" ) <&3 >/dev/null 2>&1 &
exec 3<&-
exec "$@"
`

/** Bytes that a process may leave unread of its input. */
const maxUnreadBytes = 64 * 1024 * 1024
const maxErrorLine = 64 * 1024
/** Longest wait for the rest of the output of a process that has exited. */
const drainMs = 1_000

export class ServerProcess {
  #child: ChildProcess
  #listener: ProcessListener
  #limits: ProcessLimits
  #stdin: Writable
  /** The reason why the gateway killed the process. */
  #error: string | undefined
  #isOver = false
  /** Resolves when the process and its group have ended. */
  readonly ended: Promise<void>
  #end: () => void = () => undefined

  constructor(launch: Launch, limits: ProcessLimits, listener: ProcessListener) {
    this.#listener = listener
    this.#limits = limits
    this.ended = new Promise((resolve) => {
      this.#end = resolve
    })
    const run = randomUUID()
    const child = spawn('/bin/sh', ['-c', script, watcher, launch.command, ...launch.args], {
      cwd: launch.cwd,
      env: { ...launch.env, [RUN_VARIABLE]: run },
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
    })
    this.#child = child
    this.#stdin = requireStream(child.stdin)
    // The exit of the process says more than a broken pipe.
    this.#stdin.on('error', () => undefined)
    child.stdio[3]?.on('error', () => undefined)
    const read = Promise.all([
      this.#readLines(requireStream(child.stdout), new LineSplitter(limits.maxLineBytes), listener.onLine),
      this.#readLines(
        requireStream(child.stderr),
        new LineSplitter(maxErrorLine, true),
        listener.onErrorLine,
      ),
    ])
    child.once('error', (error) => this.#finish(`it cannot be started: ${error.message}`))
    child.once('exit', (code, signal) => {
      // Ends processes that the server left behind, and the shell that watches the gateway.
      this.#signal('SIGKILL')
      const killed = killMarked(run)
      const reason = describeExit(code, signal)
      const finish = (): void => void killed.then(() => this.#finish(reason))
      void read.then(finish)
      setTimeout(finish, drainMs).unref()
    })
  }

  /** Undefined if the process could not be started. */
  get pid(): number | undefined {
    return this.#child.pid
  }

  /** Writes one message. A process that does not read its input is killed. */
  write(line: string): void {
    if (this.#isOver) return
    if (this.#stdin.writableLength > maxUnreadBytes) this.kill('it does not read its input')
    else this.#stdin.write(`${line}\n`)
  }

  /** Ends the group at once. */
  kill(reason: string): void {
    this.#error ??= reason
    this.#signal('SIGKILL')
  }

  /** Closes its input and waits; then SIGTERM and SIGKILL for the group (MCP, "stdio", "Shutdown"). */
  async stop(): Promise<void> {
    this.#error ??= 'it was stopped'
    this.#stdin.end()
    if (await this.#endsInTime()) return
    this.#signal('SIGTERM')
    if (await this.#endsInTime()) return
    this.#signal('SIGKILL')
    await this.ended
  }

  async #endsInTime(): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<boolean>((resolve) => {
      timer = setTimeout(() => resolve(false), this.#limits.stopTimeoutMs)
    })
    try {
      return await Promise.race([this.ended.then(() => true), late])
    } finally {
      clearTimeout(timer)
    }
  }

  /** Reads lines as the budget allows; meanwhile the process waits for its output to be read. Resolves at the end. */
  async #readLines(
    stream: Readable,
    lines: LineSplitter,
    onLine: (line: string) => MaybePromise<void>,
  ): Promise<void> {
    const { server } = this.#limits
    const user = { owner: server, server }
    const room = new MessageRoom({ user, maxBytes: this.#limits.maxLineBytes })
    try {
      for await (const chunk of chunksOf(stream)) {
        for (const line of lines.push(chunk)) {
          const free = lineBudget.spend(user, line.length + lineCost, lineWindowMs)
          if (free !== undefined) await free
          const received = onLine(line)
          if (received !== undefined) await received
          room.free()
        }
        await room.grow(lines.unfinished)
      }
    } catch (error) {
      // A line that cannot be handled ends the process, and not the gateway.
      if (error instanceof LineTooLong) this.#listener.onLineTooLong()
      this.kill(`its output cannot be read: ${messageOf(error)}`)
    } finally {
      room.close()
    }
  }

  #finish(reason: string): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#child.stdout?.destroy()
    this.#child.stderr?.destroy()
    this.#stdin.destroy()
    this.#child.stdio[3]?.destroy()
    this.#end()
    this.#listener.onExit(this.#error ?? reason)
  }

  #signal(signal: NodeJS.Signals): void {
    const { pid } = this.#child
    if (pid === undefined || this.#isOver) return
    try {
      process.kill(-pid, signal)
    } catch (error) {
      // The group has ended, or what is left of it runs as another user.
      const code = error instanceof Error && 'code' in error ? error.code : undefined
      if (code !== 'ESRCH' && code !== 'EPERM') throw error
    }
  }
}

function requireStream<T>(stream: T | null): T {
  if (stream === null) throw new TypeError('the process has no pipe')
  return stream
}

/** Ends at an error of the stream: the exit of the process says more than a broken pipe. */
async function* chunksOf(stream: Readable): AsyncGenerator<Buffer> {
  try {
    yield* stream as AsyncIterable<Buffer>
  } catch (error) {
    if (!stream.destroyed) throw error
  }
}

function describeExit(code: number | null, signal: NodeJS.Signals | null): string {
  if (signal !== null) return `it was ended by ${signal}`
  return code === 126 || code === 127 ? 'its command cannot be executed' : `it exited with code ${code}`
}

/** A process may start another while others are ended; the rounds are limited, as one may keep doing so. */
const maxRounds = 5

/**
 * Ends processes of a server that have left its process group, as daemons do: all of them inherit a variable with the
 * value `run`, and Linux shows with which environment a process was started; other systems do not. Waits for no
 * process.
 */
async function killMarked(run: string): Promise<void> {
  if (!existsSync('/proc/self/environ')) return
  for (let round = 0, killed = 1; killed > 0 && round < maxRounds; round++) {
    const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
    killed = 0
    for (const pid of pids) if (await killIfMarked(pid, `${RUN_VARIABLE}=${run}`)) killed++
  }
}

async function killIfMarked(pid: string, mark: string): Promise<boolean> {
  try {
    // The environment of a process that has ended is empty.
    if (!(await readFile(`/proc/${pid}/environ`)).includes(mark)) return false
    return process.kill(Number(pid), 'SIGKILL')
  } catch (error) {
    // It has ended in the meantime, or runs as another user.
    if (error instanceof Error && 'code' in error) return false
    throw error
  }
}
