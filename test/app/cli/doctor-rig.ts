import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { doctorCommand } from 'svc-sdk/internal/cli/doctor'
import { type Run, runCommand } from '../../support/command.js'
import { onDisk } from '../../support/temporary-dir.js'
import { startUpstream, type TestUpstream } from '../../support/upstream.js'

export interface Check {
  readonly section: string
  readonly severity: string
  readonly message: string
  readonly hint?: string
}

export const password = 'hunter2-of-redis'
const apiKey = 'hunter2-of-the-broker'
const adminToken = 'hunter2-of-the-admin-listener'

/** Created in a suite, it registers the hooks; its members exist while the tests run. */
export class DoctorRig {
  home!: string
  upstream!: TestUpstream
  env!: Record<string, string>

  constructor() {
    beforeEach(async () => {
      this.home = mkdtempSync(join(onDisk, 'svc-doctor-'))
      this.upstream = await startUpstream()
      generateKeyFile(join(this.home, 'audit.key'))
      this.env = { SVC_ADMIN: adminToken, SVC_KEY: apiKey }
    })
    afterEach(async () => {
      await this.upstream[Symbol.asyncDispose]()
      rmSync(this.home, { recursive: true, force: true })
    })
  }

  /** Policies are JSON here, which YAML includes. `more` replaces whole sections. */
  write(more: Record<string, unknown> = {}): string {
    const policy = {
      tenant: 'acme',
      port: 0,
      targets: { billing: this.upstream.url },
      audit: {
        gatewayName: 'edge',
        gatewayVersion: '1',
        minFreeMb: 0,
        signer: { keyRef: 'file://audit.key' },
      },
      entitlements: 'open',
      quotas: { adapter: 'memory' },
      ...more,
    }
    const file = join(this.home, 'policy.yaml')
    writeFileSync(file, JSON.stringify(policy))
    return file
  }

  run(...args: string[]): Promise<Run> {
    return runCommand((io) => doctorCommand(io, this.env), args)
  }

  async checks(more: Record<string, unknown> = {}): Promise<{ checks: Check[]; ok: boolean }> {
    const { out, code } = await this.run(this.write(more), '--json')
    const response = JSON.parse(out) as { checks: Check[]; ok: boolean }
    expect(code).to.equal(response.ok ? 0 : 1)
    return response
  }

  /** The checks of a section, as `severity message`. */
  async about(section: string, more: Record<string, unknown> = {}): Promise<string[]> {
    const found = (await this.checks(more)).checks.filter((check) => check.section === section)
    return found.map(({ severity, message }) => `${severity} ${message}`)
  }
}
