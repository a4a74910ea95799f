// A pipeline with a log of its own, for functions.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { bind, tokens } from '@svc/core'
import { generateKeyFile, type SignedEnvelope } from '@svc/plugin-audit/log'
import { createPipeline, type EmbeddedPipeline, type GatewaySettings } from 'svc-sdk'
import { keepingLogger } from '../../support/logger.js'

export class FunctionsRig implements AsyncDisposable {
  readonly home = mkdtempSync(join(tmpdir(), 'svc-test-'))
  readonly dir = join(this.home, 'audit')
  readonly log = keepingLogger()
  readonly pipeline: EmbeddedPipeline

  constructor(options: GatewaySettings = {}) {
    generateKeyFile(join(this.home, 'key'))
    this.pipeline = createPipeline({
      tenant: 'acme',
      sec0Dir: join(this.home, 'state'),
      audit: {
        gatewayName: 'app',
        gatewayVersion: '1.0.0',
        dir: this.dir,
        signer: { keyRef: `file://${join(this.home, 'key')}` },
      },
      quotas: { adapter: 'memory' },
      entitlements: 'open',
      authn: { allowUnauthenticated: true },
      ...options,
      configure: (container) => {
        bind(container, tokens.Logger, { useValue: this.log })
        options.configure?.(container)
      },
    })
  }

  /** The records so far. */
  records(): SignedEnvelope[] {
    return readdirSync(this.dir)
      .filter((name) => /^audit-.*\.ndjson$/.test(name))
      .flatMap((name) => readFileSync(join(this.dir, name), 'utf8').split('\n').filter(Boolean))
      .map((line) => JSON.parse(line) as SignedEnvelope)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.pipeline.close()
    rmSync(this.home, { recursive: true, force: true })
  }
}
