// The policy that a page of the docs shows, for a gateway of a test.
import { readFileSync } from 'node:fs'
import type { GatewayOptions } from 'svc-sdk'

/** Options for `startTestGateway`; the policy's upstream is at `upstreamUrl`. */
export function docsPolicy(page: string, upstreamUrl: string): (home: string) => GatewayOptions {
  const text = readFileSync(new URL(`../../../docs/${page}`, import.meta.url), 'utf8')
  const [, policy = ''] = /```yaml\n(tenant:[\s\S]*?)```/.exec(text) ?? []
  return (home) => ({
    policyYaml: policy
      .replace('http://127.0.0.1:9000', upstreamUrl)
      .replace('port: 8787', `port: 0\nsec0Dir: ${home}`)
      .replace('file://audit.key', `"file://${home}/key"`),
  })
}
