// An appender that exports to one receiver, and receivers that misbehave.
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer, type Server, type Socket } from 'node:net'
import type { ExportConfig, ReceiverConfig } from '@svc/plugin-audit/internal/log/export/config'
import type { SvcAppender } from '@svc/plugin-audit/log'
import { appenderIn, envelope, fixedClock } from '../writer/records.js'

type Own<T> = T extends unknown ? Omit<T, 'name' | 'format' | 'timeoutMs' | 'maxDelayMs'> : never

/** The options of a receiver named `siem`. */
export function receiver(own: Own<ReceiverConfig>, changes: { timeoutMs?: number } = {}): ReceiverConfig {
  return { name: 'siem', format: 'record', timeoutMs: 5_000, maxDelayMs: 60_000, ...changes, ...own }
}

export interface ExportingLog extends AsyncDisposable {
  readonly appender: SvcAppender
  readonly errors: Error[]
  readonly clock: ReturnType<typeof fixedClock>
  /** Appends records; resolves to their span ids. */
  append(count: number): Promise<string[]>
  /** One attempt to export; resolves to what the status says of it. */
  attempt(): Promise<{ records: number; error: string }>
}

export function exportingLog(dir: string, config: ExportConfig): ExportingLog {
  const errors: Error[] = []
  const clock = fixedClock()
  const appender = appenderIn(dir, {
    clock,
    onAsyncError: (error) => errors.push(error),
    config: { exports: [config], checkpoints: false },
  })
  return {
    appender,
    errors,
    clock,
    async append(count) {
      const records = Array.from({ length: count }, () => envelope())
      await Promise.all(records.map((record) => appender.append(record)))
      return records.map(({ span_id }) => span_id)
    },
    async attempt() {
      await appender.flush()
      const [{ records = -1, error = '' } = {}] = appender.status().exports ?? []
      return { records, error }
    },
    async [Symbol.asyncDispose]() {
      await appender.close()
    },
  }
}

/** A TCP server whose connections do what the test says, at one port for all its life. */
export class RawReceiver implements AsyncDisposable {
  /** Octet-counted messages of connections that ended in order. */
  readonly messages: string[] = []
  onConnection: (socket: Socket) => void = (socket) => this.take(socket)
  readonly #server: Server
  readonly #sockets = new Set<Socket>()

  private constructor() {
    this.#server = createServer({ allowHalfOpen: true }, (socket) => {
      this.#sockets.add(socket)
      socket.on('error', () => socket.destroy()).on('close', () => this.#sockets.delete(socket))
      this.onConnection(socket)
    })
  }

  static async start(port = 0): Promise<RawReceiver> {
    const receiver = new RawReceiver()
    receiver.#server.listen(port, '127.0.0.1')
    await once(receiver.#server, 'listening')
    return receiver
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  /** Reads to the end, then closes. */
  take(socket: Socket): void {
    const pieces: Buffer[] = []
    socket.on('data', (piece: Buffer) => pieces.push(piece))
    socket.on('end', () => {
      this.messages.push(...messagesIn(Buffer.concat(pieces)))
      socket.end()
    })
  }

  get spans(): string[] {
    return this.messages.map((message) => JSON.parse(message.slice(message.indexOf('{'))).span_id)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    this.#server.close()
    await once(this.#server, 'close')
  }
}

function messagesIn(bytes: Buffer): string[] {
  const messages: string[] = []
  for (let at = 0; at < bytes.length; ) {
    const space = bytes.indexOf(' ', at)
    const length = Number(bytes.toString('latin1', at, space))
    messages.push(bytes.toString('utf8', space + 1, space + 1 + length))
    at = space + 1 + length
  }
  return messages
}
