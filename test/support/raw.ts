// A raw TCP client: sends bytes unchanged and collects all bytes of the response.
import { connect, type Socket } from 'node:net'

export interface Dialogue {
  /** Status of each response, in order; informational ones included. */
  readonly statuses: readonly number[]
  /** All received bytes, one character each. */
  readonly text: string
}

export async function dial(url: string): Promise<Socket> {
  const { port, hostname } = new URL(url)
  const socket = connect(Number(port), hostname.replace(/^\[(.*)\]$/, '$1'))
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve)
    socket.once('error', reject)
  })
  return socket
}

/** Listens until the other side closes; this side never does. */
export async function readToEnd(socket: Socket): Promise<Dialogue> {
  const pieces: Buffer[] = []
  socket.on('data', (piece: Buffer) => pieces.push(piece))
  // A reset says as much as an end.
  socket.on('error', () => undefined)
  await new Promise((resolve) => socket.once('close', resolve))
  const text = Buffer.concat(pieces).toString('latin1')
  const statuses = [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status))
  return { statuses, text }
}

/** Sends `text` in one piece, one character a byte, and listens until the other side closes. */
export async function sendRaw(url: string, text: string): Promise<Dialogue> {
  const socket = await dial(url)
  socket.write(text, 'latin1')
  return readToEnd(socket)
}
