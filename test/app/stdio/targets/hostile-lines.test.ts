// Lines of a process that no client can be shown.
import { expect } from 'chai'
import { connect, withStdio } from '../../../support/stdio-target.js'

/** Writes the line before each response. */
const script = `
const write = (message) => process.stdout.write(JSON.stringify(message) + '\\n')
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method } = JSON.parse(line)
  if (id === undefined) return
  const isBeginning = method === 'initialize'
  if (!isBeginning) write(JSON.parse(process.argv[1]))
  const serverInfo = { name: 'hostile', version: '1.0.0' }
  const begun = { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo }
  write({ jsonrpc: '2.0', id, result: isBeginning ? begun : { content: [] } })
})`

describe('a line of a process', () => {
  for (const [what, isolate, method] of [
    ['an object', 'gateway', { toString: 1 }],
    ['an object', 'session', { toString: 1 }],
    ['null', 'gateway', null],
  ] as const) {
    it(`whose method is ${what} does not end the gateway, with a process for each ${isolate}`, async () => {
      const unhandled: unknown[] = []
      const onUnhandled = (reason: unknown) => unhandled.push(reason)
      process.on('unhandledRejection', onUnhandled)
      const line = JSON.stringify({ jsonrpc: '2.0', id: 1, method })
      await withStdio({ command: process.execPath, args: ['-e', script, line], isolate }, async (gateway) => {
        await using client = await connect(gateway)
        expect(await client.callTool({ name: 'any', arguments: {} })).to.deep.equal({ content: [] })
      })
      process.off('unhandledRejection', onUnhandled)
      expect(unhandled).to.deep.equal([])
    })
  }
})
