// A port whose connections go to the workers in turn. The main process keeps it open whatever happens to the workers:
// connections wait while there is none.
import { createServer, type Server, type Socket } from 'node:net'
import type { ListenerName } from '../gateway/worker-link.js'
import { listenOn } from '../http/listen.js'
import type { WorkerProcess } from './worker-process.js'

/** Connections that wait for a worker. */
const maxWaiting = 1_000

export class SharedListener {
  readonly name: ListenerName
  /** Once it listens. */
  port = 0
  #server: Server
  #workers: () => readonly WorkerProcess[]
  #next = 0
  #waiting = new Set<Socket>()

  /** `workers` returns those that get connections. */
  constructor(name: ListenerName, workers: () => readonly WorkerProcess[]) {
    this.name = name
    this.#workers = workers
    // The options are those with which `node:http` listens, apart from the pause.
    this.#server = createServer({ pauseOnConnect: true, noDelay: true }, (socket) => this.#accept(socket))
  }

  /** Rejects as `listenOn` does. */
  async listen(at: { readonly host: string; readonly port: number }): Promise<void> {
    this.port = await listenOn(this.#server, at)
  }

  /** To be called when a worker begins to serve, or responds again. */
  giveWaiting(): void {
    if (this.#workers().length === 0) return
    // A copy, as those that wait again are added at the end: the worker may have ended since.
    for (const socket of [...this.#waiting]) this.#accept(socket)
  }

  close(): void {
    this.#server.close()
    for (const socket of this.#waiting) socket.destroy()
  }

  #accept(socket: Socket): void {
    this.#waiting.delete(socket)
    const workers = this.#workers()
    const worker = workers[this.#next++ % workers.length]
    if (worker !== undefined) worker.give(this.name, socket, () => this.#accept(socket))
    else if (this.#waiting.size >= maxWaiting) socket.destroy()
    else {
      this.#waiting.add(socket)
      // A client that does not wait.
      socket.once('error', () => socket.destroy())
      socket.once('close', () => this.#waiting.delete(socket))
    }
  }
}
