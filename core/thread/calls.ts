// Calls between two threads: each side has methods that the other one calls. Arguments and results are cloned.

import { parentPort } from 'node:worker_threads'

interface Port {
  on(event: 'message', listener: (message: unknown) => void): unknown
  postMessage(message: unknown): void
}

export type Method = (...args: never[]) => unknown
/** The methods of the other side. */
export type Methods<Remote> = Record<keyof Remote, Method>

interface Call {
  readonly kind: 'call'
  /** Absent if no reply is expected. */
  readonly id?: number
  readonly name: string
  readonly args: readonly unknown[]
}

type Reply =
  | { readonly kind: 'result'; readonly id: number; readonly value: unknown }
  | { readonly kind: 'error'; readonly id: number; readonly message: string; readonly code: unknown }

interface Pending {
  resolve(value: unknown): void
  reject(error: Error): void
}

export class Calls<Remote extends Methods<Remote>> {
  readonly #port: Port
  readonly #methods: ReadonlyMap<string, Method>
  readonly #pending = new Map<number, Pending>()
  #nextId = 0
  #ended: Error | undefined

  /** The calls between this worker thread and the thread that has started it. */
  static ofThread<Remote extends Methods<Remote>>(methods?: Readonly<Record<string, Method>>): Calls<Remote> {
    if (parentPort === null) throw new Error('this is not a worker thread')
    return new Calls(parentPort, methods)
  }

  constructor(port: Port, methods: Readonly<Record<string, Method>> = {}) {
    this.#port = port
    this.#methods = new Map(Object.entries(methods))
    port.on('message', (message) => this.#receive(message as Call | Reply))
  }

  /** Rejects with an error of the same message and code as the method's. */
  call<Name extends keyof Remote & string>(
    name: Name,
    ...args: Parameters<Remote[Name]>
  ): Promise<Awaited<ReturnType<Remote[Name]>>> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended)
    const id = this.#nextId++
    return new Promise((resolve, reject) => {
      // The other side has typed methods.
      this.#pending.set(id, {
        resolve: (value) => resolve(value as Awaited<ReturnType<Remote[Name]>>),
        reject,
      })
      this.#port.postMessage({ kind: 'call', id, name, args } satisfies Call)
    })
  }

  /** Calls a method that returns nothing and does not fail. */
  tell<Name extends keyof Remote & string>(name: Name, ...args: Parameters<Remote[Name]>): void {
    this.#port.postMessage({ kind: 'call', name, args } satisfies Call)
  }

  /** Rejects the calls that have no reply, and all later ones. */
  end(error: Error): void {
    this.#ended = error
    for (const { reject } of this.#pending.values()) reject(error)
    this.#pending.clear()
  }

  #receive(message: Call | Reply): void {
    if (message.kind === 'call') {
      if (message.id === undefined) this.#run(message)
      else void this.#reply(message, message.id)
      return
    }
    const pending = this.#pending.get(message.id)
    this.#pending.delete(message.id)
    if (message.kind === 'result') pending?.resolve(message.value)
    else pending?.reject(Object.assign(new Error(message.message), { code: message.code }))
  }

  #run({ name, args }: Call): unknown {
    return this.#methods.get(name)?.(...(args as never[]))
  }

  async #reply(call: Call, id: number): Promise<void> {
    let reply: Reply
    try {
      reply = { kind: 'result', id, value: await this.#run(call) }
    } catch (error) {
      // A thread that signs loads no module of the core, such as `messageOf`.
      const message = error instanceof Error ? error.message : String(error)
      reply = {
        kind: 'error',
        id,
        message,
        code: error instanceof Error && 'code' in error ? error.code : undefined,
      }
    }
    this.#port.postMessage(reply)
  }
}
