import { appendFileSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import fc from 'fast-check'
import { PolicyWatch } from 'svc-sdk/internal/gateway/policy-watch'
import { FakeClock } from 'svc-sdk/testing'
import { keepingLogger } from '../../support/logger.js'
import { propertyRuns } from '../../support/property-runs.js'
import { TemporaryDir, temporaryDir } from '../../support/temporary-dir.js'

const textOf = (version: number) => `tenant: acme\nport: ${version}\nvars:\n  a: 1\n  b: [c, d]\n`

/** A watch whose gateway refuses texts with `refused`. */
class Watched {
  readonly clock = new FakeClock()
  readonly logger = keepingLogger()
  readonly loaded: string[] = []
  readonly watch: PolicyWatch

  constructor(
    file: string,
    public current: string,
  ) {
    this.watch = new PolicyWatch({
      file,
      clock: this.clock,
      logger: this.logger,
      current: () => this.current,
      load: async (text) => {
        this.loaded.push(text)
        if (text.includes('refused')) throw new Error('refused')
        this.current = text
      },
    })
  }

  async wait(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 250) {
      this.clock.advance(250)
      await this.watch.look()
    }
  }
}

/** What people and tools do to a file; each step ends within the time in which a content settles. */
const changes = {
  replaced: (file, text) => {
    writeFileSync(`${file}.new`, text)
    renameSync(`${file}.new`, file)
  },
  // Kubernetes: the file is a link into a directory that is itself a link, which is replaced.
  swapped(file, text) {
    const version = `${file}.d${Math.abs(hash(text))}`
    mkdirSync(version, { recursive: true })
    writeFileSync(join(version, 'policy.yaml'), text)
    rmSync(`${file}.link`, { force: true })
    symlinkSync(version, `${file}.link`)
    renameSync(`${file}.link`, `${file}.data`)
    rmSync(file, { force: true })
    symlinkSync(join(`${file}.data`, 'policy.yaml'), file)
  },
  async written(file, text, { wait }) {
    rmSync(file, { force: true })
    for (let at = 0; at < text.length; at += 17) {
      appendFileSync(file, text.slice(at, at + 17))
      await wait(250)
    }
  },
  async truncated(file, text, { wait }) {
    rmSync(file, { force: true })
    writeFileSync(file, '')
    await wait(1000)
    writeFileSync(file, text)
  },
  async removed(file, text, { wait }) {
    rmSync(file, { force: true })
    await wait(750)
    writeFileSync(file, text)
  },
} satisfies Record<
  string,
  (file: string, text: string, watched: { wait(ms: number): Promise<void> }) => unknown
>

const hash = (text: string) => [...text].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) | 0, 7)

describe('the watch of a policy file', () => {
  const dir = temporaryDir()
  const start = (text = textOf(0)) => {
    const file = join(dir.path, 'policy.yaml')
    writeFileSync(file, text)
    return { file, watched: new Watched(file, textOf(0)) }
  }

  it('loads each new content as a whole and once, however the file is changed', async () => {
    const kinds = Object.keys(changes) as (keyof typeof changes)[]
    const step = fc.record({ kind: fc.constantFrom(...kinds), version: fc.nat(3) })
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 8 }), async (steps) => {
        using own = new TemporaryDir()
        const file = join(own.path, 'policy.yaml')
        writeFileSync(file, textOf(0))
        const watched = new Watched(file, textOf(0))
        const expected: string[] = []
        for (const { kind, version } of steps) {
          const text = textOf(version)
          await changes[kind](file, text, { wait: (ms) => watched.wait(ms) })
          await watched.wait(1000)
          if ((expected.at(-1) ?? textOf(0)) !== text) expected.push(text)
        }
        expect(watched.loaded).to.deep.equal(expected)
      }),
      { seed: 2611, numRuns: propertyRuns(60) },
    )
  })

  it('loads a text that cannot be parsed only after five seconds, once', async () => {
    const { file, watched } = start()
    writeFileSync(file, 'tenant: [refused')
    await watched.wait(4750)
    expect(watched.loaded).to.deep.equal([])
    await watched.wait(60_000)
    expect(watched.loaded).to.deep.equal(['tenant: [refused'])
  })

  it('does not load a refused policy again, and loads the one in force if it comes back as another', async () => {
    const { file, watched } = start()
    for (const text of ['tenant: refused\n', textOf(0), textOf(1)]) {
      changes.replaced(file, text)
      await watched.wait(10_000)
    }
    expect(watched.loaded).to.deep.equal(['tenant: refused\n', textOf(1)])
  })

  it('does not load what a signal has loaded meanwhile', async () => {
    const { file, watched } = start()
    changes.replaced(file, textOf(1))
    await watched.wait(250)
    watched.current = textOf(1)
    await watched.wait(5000)
    expect(watched.loaded).to.deep.equal([])
  })

  it('keeps the policy and warns once while the file is missing', async () => {
    const { file, watched } = start()
    rmSync(file)
    await watched.wait(5000)
    expect(watched.loaded).to.deep.equal([])
    expect(watched.logger.lines.map(({ message }) => message)).to.deep.equal([
      'the policy file cannot be read; the policy stays',
    ])
  })
})
