// A gateway in its own process, so that its memory is not mixed with the test's.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { endWithRunner } from '../../support/child-lifetime.js'
import type { Held } from './gateway-process.js'

export interface MeasuredGateway extends AsyncDisposable {
  /** The endpoint of its one server. */
  readonly url: string
  held(): Promise<Held>
}

export async function startMeasuredGateway(upstream: string): Promise<MeasuredGateway> {
  const module = fileURLToPath(new URL('./gateway-process.js', import.meta.url))
  const child = endWithRunner(
    fork(module, [upstream], { execArgv: ['--expose-gc', '--conditions=svc-internal'] }),
  )
  const exit = once(child, 'exit')
  const failed = exit.then(([code]) => {
    throw new Error(`the gateway ended with ${code}`)
  })
  failed.catch(() => undefined)
  const said = async (): Promise<unknown> => (await Promise.race([once(child, 'message'), failed]))[0]
  const url = String(await said())
  return {
    url: `${url}/mcp/server`,
    async held() {
      const response = said()
      child.send('held')
      return (await response) as Held
    },
    async [Symbol.asyncDispose]() {
      if (child.exitCode !== null) return
      child.disconnect()
      await exit
    },
  }
}
