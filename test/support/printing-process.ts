// A process whose output a test waits for. One listener reads all of it, so that nothing printed between two waits is lost.
import type { ChildProcess } from 'node:child_process'
import { endWithRunner } from './child-lifetime.js'
import { signalled } from './signalled.js'

export class PrintingProcess implements AsyncDisposable {
  readonly exit: Promise<number | null>
  readonly #child: ChildProcess
  #printed = ''
  #isClosed = false
  #more = signalled()

  constructor(child: ChildProcess) {
    this.#child = endWithRunner(child)
    this.exit = new Promise((resolve) => child.once('exit', resolve))
    const changed = (): void => {
      this.#more.resolve()
      this.#more = signalled()
    }
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (piece: Buffer) => {
        this.#printed += piece
        changed()
      })
    }
    child.once('close', () => {
      this.#isClosed = true
      changed()
    })
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  /** Resolves to the first group of the pattern once the output has it; rejects if the process ends before. */
  async prints(pattern: RegExp): Promise<string> {
    for (;;) {
      const found = pattern.exec(this.#printed)
      if (found !== null) return found[1] ?? ''
      if (this.#isClosed) throw new Error(`it ended before ${pattern}: ${this.#printed}`)
      await this.#more.happened
    }
  }

  kill(signal?: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.kill('SIGKILL')
    await this.exit
  }
}
