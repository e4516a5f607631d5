"""The addresses that a tenant's webhook may lead to: public ones only, also when embedded in an IPv6 address."""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

IpAddress = IPv4Address | IPv6Address
IpNetwork = IPv4Network | IPv6Network

NEVER = [
    ip_network(network)
    for network in (
        "0.0.0.0/8",  # "this host", which leads to the loopback
        "169.254.0.0/16",  # link-local, with the metadata services of nearly every cloud
        "fe80::/10",
        "fd00:ec2::254/128",  # metadata of AWS
        "100.100.100.200/32",  # metadata of Alibaba
        "192.0.0.192/32",  # metadata of Oracle
        "168.63.129.16/32",  # metadata of Azure: a public address that the host itself answers
        "224.0.0.0/4",
        "240.0.0.0/4",
        "ff00::/8",
        "::/128",
    )
]
"""Refused even where private addresses are allowed: no receiver has one of these."""

# Refused besides what `ipaddress` calls not global, which differs between versions of Python.
PRIVATE = [
    ip_network(network)
    for network in (
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "::/96",
        "64:ff9b:1::/48",
        "100::/64",
        "2001::/23",
        "2001:db8::/32",
        "3fff::/20",
        "5f00::/16",
        "fc00::/7",
        "fec0::/10",
    )
]

NAT64 = ip_network("64:ff9b::/96")
COMPATIBLE = ip_network("::/96")


def is_allowed(text: str, *, private: bool) -> bool:
    """Return True if a webhook may lead to this address.

    `private` allows private addresses. An IPv6 address that leads to an IPv4 address must be allowed as both. Text that
    is no address is refused.
    """
    try:
        # Only link-local addresses have a scope such as `%eth0`, and those are refused anyway.
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return all(_allowed(each, private=private) for each in _meant(address))


def _allowed(address: IpAddress, *, private: bool) -> bool:
    if _within(address, NEVER):
        return False
    return private or (address.is_global and not address.is_multicast and not _within(address, PRIVATE))


def _within(address: IpAddress, networks: list[IpNetwork]) -> bool:
    return any(address in network for network in networks)


def _meant(address: IpAddress) -> Iterator[IpAddress]:
    """The address and every IPv4 address that it leads to, through a gateway or as another spelling."""
    if isinstance(address, IPv4Address) or address.ipv4_mapped is None:
        yield address
    if isinstance(address, IPv6Address):
        yield from _embedded(address)


def _embedded(address: IPv6Address) -> Iterator[IPv4Address]:
    if address.ipv4_mapped is not None or address in NAT64 or (address in COMPATIBLE and int(address) > 1):
        yield IPv4Address(int(address) & 0xFFFFFFFF)
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
