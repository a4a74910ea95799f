// How many keys each tenant has.

export class TenantKeys {
  #keys = new Map<string, number>()

  of(tenant: string): number {
    return this.#keys.get(tenant) ?? 0
  }

  add(tenant: string): void {
    this.#keys.set(tenant, this.of(tenant) + 1)
  }

  remove(tenant: string): void {
    const keys = this.of(tenant)
    if (keys > 1) this.#keys.set(tenant, keys - 1)
    else this.#keys.delete(tenant)
  }
}
