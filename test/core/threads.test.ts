// Threads start whatever the options of the process are.
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { temporaryDir } from '../support/temporary-dir.js'

const thread = new URL('../../../core/dist/thread/index.js', import.meta.url).href

describe('a thread', () => {
  const dir = temporaryDir()

  function started(program: (text: string) => string[]): string {
    const module = join(dir.path, 'thread.mjs')
    writeFileSync(
      module,
      `import { parentPort } from 'node:worker_threads'\nparentPort.postMessage('runs')\n`,
    )
    const text = `import { startWorker } from ${JSON.stringify(thread)}
      const worker = startWorker(new URL(${JSON.stringify(`file://${module}`)}), {})
      worker.on('message', (said) => process.stdout.write(said))`
    const { stdout, stderr } = spawnSync(process.execPath, program(text), {
      encoding: 'utf8',
      cwd: fileURLToPath(new URL('.', import.meta.url)),
    })
    return stdout === '' ? stderr : stdout
  }

  it('starts with options of V8, which a thread inherits and may not state', () => {
    const main = join(dir.path, 'main.mjs')
    const program = (text: string): string[] => {
      writeFileSync(main, text)
      return ['--max-semi-space-size=16', main]
    }
    expect(started(program)).to.equal('runs')
  })

  it('starts from a program that is given as an argument', () => {
    expect(started((text) => ['--input-type=module', '--eval', text])).to.equal('runs')
  })
})
