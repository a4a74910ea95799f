import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect } from 'chai'
import { svc } from '../../support/svc.js'

const missing = '/nonexistent/log'
const commands: readonly (readonly [number, ...string[]])[] = [
  [2, 'audit', 'verify'],
  [2, 'audit', 'verify', missing, '--bogus'],
  [2, 'audit', 'verify', missing],
  [0, 'audit', 'verify', '--help'],
  [2, 'audit', 'check-proof', missing],
  [2, 'audit', 'check-proof', missing, '--keys', missing],
  [2, 'audit', 'check-report', missing],
  [2, 'audit', 'check-report', missing, '--keys', missing],
  [1, 'audit', 'show', missing],
  [1, 'audit', 'vkey', missing],
  [1, 'audit', 'prove', missing, '--all'],
  [1, 'audit', 'consistency', missing],
  [1, 'policy', 'check'],
]

describe('a command that cannot do its work', () => {
  for (const [code, ...args] of commands) {
    it(`exits ${code} for svc ${args.join(' ')}`, async () => {
      const [exit] = await once(spawn(process.execPath, [svc, ...args], { stdio: 'ignore' }), 'exit')
      expect(exit).to.equal(code)
    })
  }
})
