// The reference MCP server of the protocol's authors, over Streamable HTTP, in a process of its own.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { endWithRunner } from './child-lifetime.js'
import { freePort } from './loopback.js'

export interface EverythingServer extends AsyncDisposable {
  /** The MCP endpoint. */
  readonly url: string
}

const entry = fileURLToPath(import.meta.resolve('@modelcontextprotocol/server-everything/dist/index.js'))

/** Listens on a free port when this resolves. */
export async function startEverything(): Promise<EverythingServer> {
  const port = await freePort()
  const child = endWithRunner(
    spawn(process.execPath, [entry, 'streamableHttp'], {
      env: { PATH: process.env['PATH'], PORT: String(port) },
      stdio: ['ignore', 'ignore', 'pipe'],
    }),
  )
  await listening(child)
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    async [Symbol.asyncDispose]() {
      if (child.exitCode !== null) return
      const exit = once(child, 'exit')
      child.kill('SIGKILL')
      await exit
    },
  }
}

/** The server says so itself; it says nothing of the port it took, so that is chosen for it. */
function listening(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let said = ''
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      said += text
      if (said.includes('listening on port')) resolve()
    })
    child.once('error', reject)
    child.once('exit', (code) => reject(new Error(`server-everything ended with ${code}: ${said}`)))
  })
}
