// Filters each response before the caller gets it: the server's version is learned, lists are filtered.
import type { Call, CallRequest } from '@svc/core'
import type { AnnotationCache } from './annotation-cache.js'
import type { McpExchange } from './exchange.js'
import { filterListing, isFields, isListing } from './listing.js'
import { McpRefusal } from './mcp-refusal.js'
import { referenceOf } from './request.js'
import type { Fields } from './rpc-response.js'
import { hasServerInfo, versionIn } from './server-info.js'
import type { ServerVersions } from './server-versions.js'

/** The caches that learn from the answers of servers. */
export interface LearningCaches {
  readonly versions: ServerVersions
  readonly annotations: AnnotationCache
}

export class ResponseFilter {
  #call: Call
  #request: CallRequest
  #exchange: McpExchange
  #versions: ServerVersions
  #annotations: AnnotationCache

  constructor(call: Call, request: CallRequest, exchange: McpExchange, caches: LearningCaches) {
    this.#call = call
    this.#request = request
    this.#exchange = exchange
    this.#versions = caches.versions
    this.#annotations = caches.annotations
  }

  /** The same object when nothing is removed. Rejects with `Refusal` when the server's version cannot be learned. */
  async response(message: Fields): Promise<Fields> {
    const { result } = message
    if (hasServerInfo(this.#request.method)) this.#learn(result)
    // The result of a guarded method was judged by its reference.
    if (this.#request.kind !== 'protocol' || !isListing(result)) return message
    const version = await this.#versions.of(this.#exchange.upstream())
    this.#refineTarget(version)
    this.#learnTools(version, result)
    const filtered = filterListing(result, (kind, name) => this.#mayRequest(kind, name, version))
    return filtered === result ? message : { ...message, result: filtered }
  }

  #learn(result: unknown): void {
    const version = isFields(result) ? versionIn(result) : undefined
    if (version === undefined) return
    this.#versions.learn(this.#exchange.upstream(), version)
    this.#refineTarget(version)
  }

  /** Only from answers to `tools/list`. */
  #learnTools(version: string, result: unknown): void {
    if (this.#request.method !== 'tools/list') return
    const { server, upstream } = this.#exchange
    this.#annotations.learn({ server, upstream: upstream(), version }, result)
  }

  /** For the record, which is written after the answer was read. */
  #refineTarget(version: string): void {
    this.#call.refineTarget({ serverVersion: version, toolVersion: version })
  }

  #mayRequest(kind: CallRequest['kind'], name: string, version: string): boolean {
    const reference = validReference(this.#exchange.server, kind, name, version)
    return reference !== undefined && this.#call.mayRequest(reference, kind)
  }
}

/** Undefined for a name that can have no reference: it is not listed either. */
function validReference(
  server: string,
  kind: CallRequest['kind'],
  name: string,
  version: string,
): string | undefined {
  try {
    return referenceOf(server, kind, name, version)
  } catch (fault) {
    if (fault instanceof McpRefusal) return undefined
    throw fault
  }
}
